//go:build unix

package endpoint

import (
	"errors"
	"syscall"
)

// quiet reports whether nothing came on a free connection: no end, and no answer without a request.
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
