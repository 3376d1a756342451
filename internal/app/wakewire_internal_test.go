package app

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/natstest"
)

// mortalWire is between a process and NATS: it sees all that the process says, and what it does not pass on was never said.
type mortalWire struct {
	listener net.Listener
	to       string
	see      func(said []byte) bool
	parts    sync.WaitGroup

	mu    sync.Mutex
	conns [][2]net.Conn
}

func openMortalWire(t *testing.T, server *natstest.Server, see func([]byte) bool) *mortalWire {
	t.Helper()
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	w := &mortalWire{listener: listener, to: strings.TrimPrefix(server.ClientURL(), "nats://"), see: see}
	w.parts.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			w.join(client)
		}
	})
	return w
}

func (w *mortalWire) join(client net.Conn) {
	server, err := net.Dial("tcp", w.to) //nolint:noctx // on the loopback address
	if err != nil {
		_ = client.Close()
		return
	}
	w.mu.Lock()
	w.conns = append(w.conns, [2]net.Conn{client, server})
	w.mu.Unlock()
	w.parts.Go(func() {
		_, _ = io.Copy(client, server)
		_ = client.Close()
		_, _ = io.Copy(io.Discard, server) // until it has read all that was said
		_ = server.Close()
	})
	w.parts.Go(func() {
		w.forward(bufio.NewReader(client), server)
		if tcp, ok := server.(*net.TCPConn); ok {
			_ = tcp.CloseWrite()
		}
	})
}

func (w *mortalWire) forward(from *bufio.Reader, to io.Writer) {
	for {
		said, err := readSaid(from)
		if err != nil {
			return
		}
		if !w.see(said) {
			continue
		}
		if _, err := to.Write(said); err != nil {
			return
		}
	}
}

// readSaid reads a line of the protocol, with its payload if it has one.
func readSaid(from *bufio.Reader) ([]byte, error) {
	said, err := from.ReadBytes('\n')
	words := bytes.Fields(said)
	if err != nil || len(words) < 3 || !bytes.HasSuffix(bytes.ToUpper(words[0]), []byte("PUB")) {
		return said, err
	}
	size, err := strconv.Atoi(string(words[len(words)-1]))
	if err != nil {
		return nil, err
	}
	payload := make([]byte, size+2)
	_, err = io.ReadFull(from, payload)
	return append(said, payload...), err
}

// hangUp ends what the process says. What it said before is heard; it hears nothing any more.
func (w *mortalWire) hangUp() {
	_ = w.listener.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.conns {
		_ = c[0].Close()
	}
}
