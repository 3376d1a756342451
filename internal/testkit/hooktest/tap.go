package hooktest

import (
	"bytes"
	"context"
	"net"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// tapBuffer is the size of the kernel's receive buffer for each connection to a tapped server. The
// kernel may use about twice as much.
const tapBuffer = 32 << 10

// Tap records the bytes that reach a server. It is safe for concurrent use.
type Tap struct {
	net.Listener

	mu    sync.Mutex
	came  []*bytes.Buffer // by connection
	hears chan struct{}   // closed while it reads
}

// NewTapped is New for a server that records every byte that it reads, even of incomplete requests,
// and that can stop reading.
func NewTapped(tb testing.TB, answer func(r Request) Answer) (*Server, *Tap) {
	tb.Helper()
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) (err error) {
		failed := c.Control(func(fd uintptr) {
			err = TakeLittle(fd, tapBuffer, 0)
		})
		if failed != nil {
			return failed
		}
		return err
	}}
	listener, err := config.Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatalf("hooktest: %v", err)
	}
	tap := &Tap{Listener: listener, hears: make(chan struct{})}
	close(tap.hears)
	tb.Cleanup(tap.Hear)
	return start(tb, answer, func(s *httptest.Server) {
		_ = s.Listener.Close() // the original one
		s.Listener = tap
	}), tap
}

// Accept returns the next connection.
func (t *Tap) Accept() (net.Conn, error) {
	conn, err := t.Listener.Accept()
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	came := &bytes.Buffer{}
	t.came = append(t.came, came)
	return tapped{conn, t, came}, nil
}

// Deafen stops the reading of all connections, until Hear. A read that has begun is completed. Do
// not call it again before Hear: connections that wait would wait forever.
func (t *Tap) Deafen() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.hears = make(chan struct{})
}

// Hear resumes reading. It can be called at any time, and is called when the test ends.
func (t *Tap) Hear() {
	t.mu.Lock()
	defer t.mu.Unlock()
	select {
	case <-t.hears:
	default:
		close(t.hears)
	}
}

// Text returns all received bytes, one connection after another.
func (t *Tap) Text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all strings.Builder
	for _, came := range t.came {
		all.Write(came.Bytes())
	}
	return all.String()
}

// Len returns the number of received bytes.
func (t *Tap) Len() int { return len(t.Text()) }

func (t *Tap) wait() {
	t.mu.Lock()
	hears := t.hears
	t.mu.Unlock()
	<-hears
}

// tapped is a connection with recorded bytes.
type tapped struct {
	net.Conn

	tap  *Tap
	came *bytes.Buffer // guarded by the tap's mu
}

// Read reads, unless the tap is deaf.
func (c tapped) Read(p []byte) (int, error) {
	c.tap.wait()
	n, err := c.Conn.Read(p)
	c.tap.mu.Lock()
	defer c.tap.mu.Unlock()
	c.came.Write(p[:n])
	return n, err
}

// NewBusy returns the URL of an endpoint that accepts no connections, so that dialling it blocks.
// The function accept accepts all connections, reads them to their end, and returns the bytes.
// NewBusy takes at least 300 ms, and accept at least two seconds.
func NewBusy(tb testing.TB) (url string, accept func() []byte) {
	tb.Helper()
	listener := listenFull(tb)
	tb.Cleanup(func() { _ = listener.Close() })
	addr := listener.Addr().String()
	var fillers []net.Conn
	for {
		limit, cancel := context.WithTimeout(tb.Context(), 300*time.Millisecond)
		conn, err := (&net.Dialer{}).DialContext(limit, "tcp", addr)
		cancel()
		if err != nil {
			break // it is full
		}
		fillers = append(fillers, conn)
	}
	return "http://" + addr, func() []byte {
		for _, conn := range fillers {
			_ = conn.Close()
		}
		return drain(listener, 2*time.Second)
	}
}

// drain accepts connections until none arrives for the time quiet, and returns their bytes.
func drain(listener *net.TCPListener, quiet time.Duration) (all []byte) {
	for {
		_ = listener.SetDeadline(time.Now().Add(quiet))
		conn, err := listener.Accept()
		if err != nil {
			return all
		}
		_ = conn.SetReadDeadline(time.Now().Add(quiet))
		var came bytes.Buffer
		_, _ = came.ReadFrom(conn) // until it ends, one way or another
		_ = conn.Close()
		all = append(all, came.Bytes()...)
	}
}
