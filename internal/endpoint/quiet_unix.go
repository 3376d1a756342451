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
func readNow(raw syscall.RawConn, p []byte) (n int, err error) {
	if raw == nil {
		return 0, os.ErrDeadlineExceeded
	}
	var failed error
	err = raw.Control(func(fd uintptr) { n, failed = syscall.Read(int(fd), p) })
	switch {
	case err != nil:
		return 0, err
	case errors.Is(failed, syscall.EAGAIN):
		return 0, os.ErrDeadlineExceeded
	case failed != nil: // n is -1
		return 0, failed
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}
