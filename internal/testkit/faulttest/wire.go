package faulttest

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// Wire is a proxy between a client and NATS, on the loopback address. It sees every command of the
// client and can drop any of them. So a test can simulate a process that dies between any two of
// its writes. It is safe for concurrent use.
type Wire struct {
	listener net.Listener
	to       string
	see      func(said []byte) bool
	parts    sync.WaitGroup

	mu    sync.Mutex
	conns [][2]net.Conn // the client's, and the server's
}

// OpenWire returns a wire to an address; the caller must close it. See gets each command with its
// payload, and returns whether to pass it on. A nil see passes on all commands. see is called by
// one goroutine for each connection, and may block, which delays the connection.
func OpenWire(tb testing.TB, to string, see func(said []byte) bool) *Wire {
	tb.Helper()
	var config net.ListenConfig
	listener, err := config.Listen(tb.Context(), "tcp", "127.0.0.1:0")
	require.NoError(tb, err)
	w := &Wire{listener: listener, to: to, see: see}
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

// Addr returns the wire's own address.
func (w *Wire) Addr() string { return w.listener.Addr().String() }

// HangUp closes the client side. Earlier commands still arrive at the server; clients get no more
// responses. There are no more connections after it.
func (w *Wire) HangUp() {
	_ = w.listener.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.conns {
		_ = c[0].Close()
	}
}

// Cut closes all connections.
func (w *Wire) Cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.conns {
		_ = c[0].Close()
		_ = c[1].Close()
	}
	w.conns = nil
}

// Wait returns when all commands have arrived at the server. Call it after HangUp.
func (w *Wire) Wait() { w.parts.Wait() }

// Close ends the wire.
func (w *Wire) Close() {
	_ = w.listener.Close()
	w.Cut()
	w.parts.Wait()
}

func (w *Wire) join(client net.Conn) {
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
		_, _ = io.Copy(io.Discard, server) // until it has read all commands
		_ = server.Close()
	})
	w.parts.Go(func() {
		w.forward(bufio.NewReader(client), server)
		if tcp, ok := server.(*net.TCPConn); ok {
			_ = tcp.CloseWrite()
		}
	})
}

// forward passes on a client's commands.
func (w *Wire) forward(from *bufio.Reader, to io.Writer) {
	for {
		said, err := readSaid(from)
		if err != nil {
			return
		}
		if w.see != nil && !w.see(said) {
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
	words := published(said)
	if err != nil || words == nil {
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

// published returns the words of the line of a published message, nil for another command.
func published(said []byte) [][]byte {
	line, _, _ := bytes.Cut(said, []byte("\n"))
	words := bytes.Fields(line)
	if len(words) < 3 || !bytes.HasSuffix(bytes.ToUpper(words[0]), []byte("PUB")) {
		return nil
	}
	return words
}

// Kind is a kind of client command: its name, a prefix of the subject, and a text in the payload.
type Kind [3]string

// KindOf returns the name of the first kind that matches a command, or "".
func KindOf(said []byte, kinds []Kind) string {
	words := published(said)
	if words == nil {
		return ""
	}
	for _, kind := range kinds {
		if bytes.HasPrefix(words[1], []byte(kind[1])) && bytes.Contains(said, []byte(kind[2])) {
			return kind[0]
		}
	}
	return ""
}
