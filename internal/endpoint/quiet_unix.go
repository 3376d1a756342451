//go:build unix

package endpoint

import (
	"errors"
	"io"
	"os"
	"syscall"
)

// readNow reads what has arrived on a connection. It does not wait, because the kernel's socket is
// non-blocking: the error is os.ErrDeadlineExceeded if nothing has arrived, and io.EOF at the end.
func readNow(raw syscall.RawConn, p []byte) (int, error) {
	if raw == nil {
		return 0, os.ErrDeadlineExceeded
	}
	var got struct { // one allocation
		n   int
		err error
	}
	if err := raw.Control(func(fd uintptr) { got.n, got.err = syscall.Read(int(fd), p) }); err != nil {
		return 0, err
	}
	switch {
	case errors.Is(got.err, syscall.EAGAIN):
		return 0, os.ErrDeadlineExceeded
	case got.err != nil: // n is -1
		return 0, got.err
	case got.n == 0:
		return 0, io.EOF
	}
	return got.n, nil
}
