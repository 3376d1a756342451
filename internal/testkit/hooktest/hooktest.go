// Package hooktest provides an endpoint for tests: an HTTP server on loopback with scripted
// answers, which misbehaves on demand and records every request.
package hooktest

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"
)

// limit is how long Wait waits before it fails the test.
const limit = time.Minute

// Request is a received request.
type Request struct {
	Number     int // from 1, in order of arrival
	Method     string
	Path       string
	Header     http.Header
	Body       []byte
	At         time.Time
	RemoteAddr string // the same for two requests over one connection
}

// Answer is the server's reaction to a request. The zero value is an empty 200. Hang and Until come
// first, then Raw, then Cut without a body. All waits end when the sender disconnects or the test
// ends.
type Answer struct {
	Status int // default: 200
	Header map[string]string
	Body   string
	Until  <-chan struct{} // answers once this is closed
	Hang   bool            // never answers, until the sender gives up
	Drip   time.Duration   // between the bytes of Body, each of which is flushed
	Cut    bool            // closes the connection in the middle of Body, or instead of any answer if it has none
	Raw    func(net.Conn)  // instead of all else: may write anything to the hijacked connection
}

// Server is a scripted endpoint. It is safe for concurrent use, except for Wait.
type Server struct {
	URL string

	tb   testing.TB
	done chan struct{}
	raws sync.WaitGroup // answers that have taken over their connection

	mu       sync.Mutex
	requests []Request
	changed  chan struct{} // closed and replaced with each request
}

// New starts a server that answers each request with the result of answer; nil answers all with
// 200. It calls answer from many goroutines. The server ends with the test. A request whose body
// does not arrive completely is not recorded.
func New(tb testing.TB, answer func(r Request) Answer) *Server {
	tb.Helper()
	return start(tb, answer, func(*httptest.Server) {})
}

func start(tb testing.TB, answer func(r Request) Answer, change func(*httptest.Server)) *Server {
	tb.Helper()
	if answer == nil {
		answer = func(Request) Answer { return Answer{} }
	}
	s := &Server{tb: tb, done: make(chan struct{}), changed: make(chan struct{})}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the sender went away: not a request
		}
		s.give(w, r, answer(s.record(r, body)))
	}))
	change(server)
	server.Start()
	s.URL = server.URL
	tb.Cleanup(func() {
		if tb.Failed() {
			s.list()
		}
		close(s.done)
		server.CloseClientConnections()
		server.Close()
		s.raws.Wait()
	})
	return s
}

// mostListed is how many requests of a failed test are listed.
const mostListed = 50

// list logs the last requests.
func (s *Server) list() {
	s.tb.Helper()
	all := s.Requests()
	for _, r := range all[max(0, len(all)-mostListed):] {
		s.tb.Logf("hooktest: request %d at %s: %s %s, webhook-id %q, %d bytes", r.Number, r.At.UTC().Format(time.RFC3339Nano), r.Method, r.Path, r.Header.Get("Webhook-Id"), len(r.Body))
	}
}

// Requests returns the requests so far, in order of arrival. The slice is the caller's; the
// requests in it are shared.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Wait returns the requests so far as soon as there are n of them. It fails the test if that takes
// longer than a minute; call it from the test's goroutine.
func (s *Server) Wait(n int) []Request {
	s.tb.Helper()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		s.mu.Lock()
		requests, changed := slices.Clone(s.requests), s.changed
		s.mu.Unlock()
		if len(requests) >= n {
			return requests
		}
		select {
		case <-changed:
		case <-timer.C:
			s.tb.Fatalf("hooktest: %d requests after %s, want %d", len(requests), limit, n)
		}
	}
}

func (s *Server) record(r *http.Request, body []byte) Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	request := Request{
		Number: len(s.requests) + 1, Method: r.Method, Path: r.URL.RequestURI(), Header: r.Header.Clone(),
		Body: body, At: time.Now(), RemoteAddr: r.RemoteAddr,
	}
	s.requests = append(s.requests, request)
	close(s.changed)
	s.changed = make(chan struct{})
	return request
}

func (s *Server) give(w http.ResponseWriter, r *http.Request, a Answer) {
	if a.Hang {
		a.Until = make(chan struct{})
	}
	if a.Until != nil && !wait(s, r, a.Until) {
		return
	}
	if a.Raw != nil {
		s.raw(w, a.Raw)
		return
	}
	if a.Cut && a.Body == "" {
		panic(http.ErrAbortHandler) // net/http's way to close the connection at once
	}
	for name, value := range a.Header {
		w.Header().Set(name, value)
	}
	if a.Status != 0 {
		w.WriteHeader(a.Status)
	}
	body := a.Body
	if a.Cut {
		body = body[:(len(body)+1)/2]
	}
	s.write(w, r, a.Drip, body)
	if a.Cut {
		panic(http.ErrAbortHandler)
	}
}

// raw hijacks the connection, until answer returns or the test ends.
func (s *Server) raw(w http.ResponseWriter, answer func(net.Conn)) {
	s.raws.Add(1) // the server does not wait for hijacked connections itself
	defer s.raws.Done()
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	over := make(chan struct{})
	var closer sync.WaitGroup
	closer.Go(func() {
		select {
		case <-over:
		case <-s.done:
		}
		_ = conn.Close()
	})
	answer(conn)
	close(over)
	closer.Wait()
}

func (s *Server) write(w http.ResponseWriter, r *http.Request, drip time.Duration, body string) {
	step := len(body)
	if drip > 0 {
		step = 1
	}
	for len(body) > 0 {
		if _, err := io.WriteString(w, body[:step]); err != nil {
			return
		}
		if err := http.NewResponseController(w).Flush(); err != nil {
			return
		}
		body = body[step:]
		if drip > 0 && !wait(s, r, time.After(drip)) {
			return
		}
	}
}

// wait waits for until, and reports whether it came before the sender disconnected or the test
// ended.
func wait[T any](s *Server, r *http.Request, until <-chan T) bool {
	select {
	case <-until:
		return true
	case <-r.Context().Done():
		return false
	case <-s.done:
		return false
	}
}
