package app

import (
	"errors"
	"net"

	"golang.org/x/sys/unix"
)

// mostUnsent is how many bytes the kernel takes for a connection beyond those that are on their way.
const mostUnsent = 64 << 10

// bounded is a listener whose connections take no more than is about to be sent. Otherwise the kernel keeps megabytes for each
// reader that takes nothing, and whoever writes does not know of it. What is on its way is not bounded, and so neither is
// the throughput over long distances.
type bounded struct{ net.Listener }

// Accept is part of net.Listener.
func (b bounded) Accept() (net.Conn, error) {
	conn, err := b.Listener.Accept()
	if tcp, ok := conn.(*net.TCPConn); ok && err == nil {
		_ = boundUnsent(tcp) // where the system knows no such bound, it keeps what it likes
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
