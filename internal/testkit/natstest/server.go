// Package natstest starts NATS servers for tests, embedded as in Sluice itself. A server ends with
// its test, and can be restarted.
//
// A test fails, rather than being skipped, if a server cannot start. With a shared server (see
// SharedEnv), tests that need a server of their own fail at once.
package natstest

import (
	"net"
	"net/url"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/natsd"
)

// Server is a NATS server with a directory of its own. Clients that connect in process through it
// survive a restart: their reconnects reach the new server. It is safe for concurrent use, except
// for Start, Stop and Restart at the same time.
type Server struct {
	opts   natsd.Options
	shared string // address of the server that all tests share; "" if this one is not shared

	mu   sync.Mutex
	nats *natsd.Server // nil while stopped
}

// New returns a running server that accepts connections from this process only and is shut down
// when the test ends.
func New(tb testing.TB) *Server {
	tb.Helper()
	return NewWith(tb, natsd.Options{DontListen: true})
}

// Listening returns a running server that also listens on a free port of the loopback address.
func Listening(tb testing.TB) *Server {
	tb.Helper()
	return NewWith(tb, natsd.Options{})
}

// NewWith returns a running server with the options. Without a directory it gets a temporary one;
// without a sync setting it does not wait for the disk. If the tests share a server (SharedEnv), it
// is that server with a prefix of its own. A shared server admits every user. The server stops when
// the test ends.
func NewWith(tb testing.TB, opts natsd.Options) *Server {
	tb.Helper()
	if Shared() && !opts.DontListen && opts.MaxStore == 0 && opts.StoreDir == "" {
		return &Server{shared: room(tb)}
	}
	alone(tb)
	if opts.StoreDir == "" {
		opts.StoreDir = tb.TempDir()
	}
	if opts.Sync == "" {
		opts.Sync = "2m"
	}
	s := &Server{opts: opts}
	tb.Cleanup(func() { s.Stop(tb) })
	s.Start(tb)
	return s
}

// Start starts a stopped server on the same directory and port. It fails the test if the server
// runs.
func (s *Server) Start(tb testing.TB) {
	tb.Helper()
	alone(tb)
	s.mu.Lock()
	defer s.mu.Unlock()
	require.Nil(tb, s.nats, "the server runs")
	nats, err := natsd.Start(tb.Context(), s.opts)
	require.NoError(tb, err)
	s.nats = nats
	if s.opts.DontListen || s.opts.Port != 0 {
		return
	}
	u, err := url.Parse(nats.ClientURL())
	require.NoError(tb, err)
	s.opts.Port, err = strconv.Atoi(u.Port())
	require.NoError(tb, err)
}

// Stop shuts the server down and waits until it has ended. It does nothing if the server is
// stopped.
func (s *Server) Stop(tb testing.TB) {
	tb.Helper()
	alone(tb)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.nats == nil {
		return
	}
	require.NoError(tb, s.nats.Shutdown())
	s.nats = nil
}

// Restart stops the server and starts it on the same directory and port. Clients lose their
// connections and reconnect by themselves.
func (s *Server) Restart(tb testing.TB) {
	tb.Helper()
	s.Stop(tb)
	s.Start(tb)
}

// ClientURL returns the address that clients connect to, or "" if the server does not listen
// or is stopped.
func (s *Server) ClientURL() string {
	if s.shared != "" {
		return s.shared
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.nats == nil {
		return ""
	}
	return s.nats.ClientURL()
}

// InProcessConn returns a connection to the running server; net.ErrClosed if it is stopped.
func (s *Server) InProcessConn() (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.nats == nil {
		return nil, net.ErrClosed
	}
	return s.nats.InProcessConn() //nolint:wrapcheck // nats.go is the caller and wraps it
}

// Login returns the login of this process for the running server, if the server has users. A
// restart changes the login.
func (s *Server) Login() (public string, sign func([]byte) ([]byte, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.nats == nil {
		return "", nil
	}
	return s.nats.Login()
}
