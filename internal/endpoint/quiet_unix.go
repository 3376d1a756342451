//go:build unix

package endpoint

import (
	"errors"
	"syscall"
)

// quiet reports whether nothing has arrived on a free connection: neither its end nor a response
// without a request.
func (c *wire) quiet() bool {
	if c.raw == nil {
		return true
	}
	silent := false
	err := c.raw.Control(func(fd uintptr) {
		var one [1]byte
		_, err := syscall.Read(int(fd), one[:])
		silent = errors.Is(err, syscall.EAGAIN)
	})
	return err == nil && silent
}
