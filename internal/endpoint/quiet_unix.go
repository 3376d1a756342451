//go:build unix

package endpoint

import (
	"errors"
	"syscall"
)

// quiet reports whether nothing has arrived on a free connection: neither its end nor a response
// without a request. The read does not block, because the kernel's socket is non-blocking, and
// costs one system call. A byte that it takes is lost, so the caller must drop a connection that is
// not quiet.
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
