//go:build unix

package hooktest

import (
	"fmt"
	"net"
	"os"
	"syscall"
	"testing"
)

// TakeLittle bounds the receive buffer of a socket, and the size of its segments (0: the default).
func TakeLittle(fd uintptr, buffer, segment int) error {
	err := syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, buffer)
	if err == nil && segment > 0 {
		err = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_MAXSEG, segment)
	}
	return err //nolint:wrapcheck // net wraps it
}

// listenFull listens with room for one connection in its backlog.
func listenFull(tb testing.TB) *net.TCPListener {
	tb.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(fd)
		err = syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})
	}
	if err == nil {
		err = syscall.Listen(fd, 0)
	}
	if err != nil {
		tb.Fatalf("hooktest: %v", fmt.Errorf("listen: %w", err))
	}
	file := os.NewFile(uintptr(fd), "busy")
	defer func() { _ = file.Close() }()
	listener, err := net.FileListener(file)
	if err != nil {
		tb.Fatalf("hooktest: %v", err)
	}
	tcp, ok := listener.(*net.TCPListener)
	if !ok {
		tb.Fatalf("hooktest: %T", listener)
	}
	return tcp
}
