//go:build linux

package httpserver

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// S2-88, S2-91: a reader that takes nothing is known to the server as one, and not hidden behind megabytes that the kernel
// keeps for it.
func TestListener_KernelBuffersLittleForStalledReaders(t *testing.T) {
	t.Parallel()
	var listen net.ListenConfig
	inner, err := listen.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	listener := bounded{inner}
	defer func() { require.NoError(t, listener.Close()) }()
	var dialer net.Dialer
	client, err := dialer.DialContext(t.Context(), "tcp", listener.Addr().String())
	require.NoError(t, err)
	defer func() { require.NoError(t, client.Close()) }()
	conn, err := listener.Accept()
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	tcp, ok := conn.(*net.TCPConn)
	require.True(t, ok)
	socket, err := tcp.SyscallConn()
	require.NoError(t, err)
	require.NoError(t, socket.Control(func(fd uintptr) {
		most, err := unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT)
		require.NoError(t, err)
		require.Equal(t, mostUnsent, most)
	}))
}
