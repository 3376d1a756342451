package hooktest

import (
	"net"
	"syscall"
	"testing"
)

// TakeLittle bounds the receive buffer of a socket. Windows does not bound the size of segments.
func TakeLittle(fd uintptr, buffer, _ int) error {
	return syscall.SetsockoptInt(syscall.Handle(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, buffer) //nolint:wrapcheck // net wraps it
}

func listenFull(tb testing.TB) *net.TCPListener {
	tb.Helper()
	tb.Skip("Windows does not bound the backlog of a listener")
	return nil
}
