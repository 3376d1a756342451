package httpserver

import (
	"errors"
	"net"

	"golang.org/x/sys/unix"
)

// mostUnsent is the maximum number of bytes that the kernel buffers for a connection beyond those
// in flight.
const mostUnsent = 64 << 10

// bounded is a listener of connections for which the kernel buffers little unsent data. Otherwise
// it would buffer megabytes for each reader that has stopped reading, and the writer would not
// notice. Data in flight is not limited, so the throughput over long distances is unaffected.
type bounded struct{ net.Listener }

// Accept is part of net.Listener.
func (b bounded) Accept() (net.Conn, error) {
	conn, err := b.Listener.Accept()
	if tcp, ok := conn.(*net.TCPConn); ok && err == nil {
		_ = boundUnsent(tcp) // without support, the system buffers as it likes
	}
	return conn, err
}

func boundUnsent(conn *net.TCPConn) error {
	socket, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var set error
	err = socket.Control(func(fd uintptr) {
		set = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, mostUnsent)
	})
	return errors.Join(err, set)
}
