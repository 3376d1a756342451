package endpoint

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// plain returns a listener on loopback whose connections are each handled so, and a Sender and a subscription to it.
func plain(tb testing.TB, handle func(net.Conn)) (*Sender, *sluice.Subscription) {
	tb.Helper()
	listener, err := (&net.ListenConfig{}).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	require.NoError(tb, err)
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer func() { _ = conn.Close() }()
				handle(conn)
			})
		}
	})
	s := New(Options{AllowLoopback: true})
	tb.Cleanup(func() {
		s.Close()
		require.NoError(tb, listener.Close())
		running.Wait()
	})
	return s, to("http://" + listener.Addr().String() + "/hook?k=v")
}

func to(address string) *sluice.Subscription {
	return &sluice.Subscription{
		Endpoint: sluice.Endpoint{URL: address, Headers: map[string]string{"X-Env": "test"}},
		Policy:   sluice.Policy{Timeout: sluice.Duration(time.Minute)},
		Secrets:  []sluice.Secret{{Value: "whsec_bmV3LXNlY3JldC1uZXctc2VjcmV0LW5ldy1zZWNyZXQ="}},
	}
}

// heard reads a request, and returns its bytes; nil if there is none.
func heard(from *bufio.Reader) []byte {
	var all strings.Builder
	req, err := http.ReadRequest(bufio.NewReader(io.TeeReader(from, &all)))
	if err != nil {
		return nil
	}
	if _, err := io.Copy(io.Discard, req.Body); err != nil {
		return nil
	}
	return []byte(all.String())
}

const fine = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"

// A receiver cannot tell an exchange on a wire from one of net/http.
func TestWire_SendsTheBytesOfTheTransport(t *testing.T) {
	t.Parallel()
	came := make(chan []byte, 2)
	s, sub := plain(t, func(conn net.Conn) {
		came <- heard(bufio.NewReader(conn))
		_, _ = io.WriteString(conn, fine)
	})
	ev := &sluice.Event{ID: "1", Path: "/a", Type: "t", Source: "/s", Data: []byte(`{"a":1}`)}
	for _, number := range []int{1, 2} { // a retry closes its connection
		a := sluice.Attempt{Number: number, StartedAt: time.Now()}
		req, body, err := s.request(t.Context(), sub, ev, &a)
		require.NoError(t, err)
		until, ignore := time.Now().Add(time.Minute), func(*http.Response) error { return nil }
		require.NoError(t, s.wires.exchange(t.Context(), req, body, until, ignore))
		other := req.Clone(t.Context())
		other.Body, other.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		s.transport.CloseIdleConnections() // the receiver closes them, which a request may notice too late
		res, err := s.transport.RoundTrip(other)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		ours, theirs := <-came, <-came
		require.Equal(t, string(theirs), string(ours))
		require.Contains(t, string(ours), "X-Env: test\r\n")
	}
}

func small() *sluice.Event {
	return &sluice.Event{ID: "1", Namespace: "acme", Path: "/a/b", Type: "t", Source: "/s", Seq: 7, Data: bytes.Repeat([]byte("7"), 260)}
}

func TestHead_RefusesLineBreaks(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"a\r\nX: y", "a\nb", "a\x00"} {
		_, err := appendHead(nil, post(&url.URL{Host: "a"}, http.Header{"X-A": {value}}), 0)
		require.Equal(t, sluice.Unprocessable, sluice.CodeOf(err))
	}
}

// Issue 15: an event for several subscriptions is rendered once for all but the first of them.
func TestRenderings_AreShared(t *testing.T) {
	t.Parallel()
	var r renderings
	ev := small()
	first, _ := r.of(ev)
	second, hash := r.of(ev)
	require.Equal(t, hashOf(first), hash)
	copied := *ev // as for each subscription
	third, _ := r.of(&copied)
	require.Same(t, &second[0], &third[0])
	require.Equal(t, first, third)

	other := *ev // of another log, with the same sequence
	other.ID, other.Data = "2", bytes.Clone(ev.Data)
	body, hash := r.of(&other)
	require.Contains(t, string(body), `"id":"2"`)
	require.Empty(t, hash)
	again, _ := r.of(ev)
	require.Equal(t, first, again)
	ev.Data = bytes.Repeat([]byte("7"), mostRendered+1)
	for range 3 {
		_, hash = r.of(ev)
		require.Empty(t, hash, "large ones are not kept")
	}
}

// Nothing that came before a request is its answer: not with the answer before, nor later.
func TestWire_UnaskedAnswerIsIgnored(t *testing.T) { // C06
	t.Parallel()
	for name, extra := range map[string]string{"with the answer": fine + unasked, "half of it": fine + "H"} {
		var opened atomic.Int32
		s, sub := plain(t, func(conn net.Conn) {
			opened.Add(1)
			from := bufio.NewReader(conn)
			for heard(from) != nil {
				_, _ = io.WriteString(conn, extra)
			}
		})
		for range 3 {
			require.Equal(t, sluice.Delivered, s.Send(t.Context(), sub, &sluice.Event{ID: "1"}, 1).Outcome, name)
		}
		require.EqualValues(t, 3, opened.Load(), "%s: the connection is used no more", name)
	}
}

// A retry closes its connection, even if the endpoint does not.
func TestWire_EndsAtARetry(t *testing.T) {
	t.Parallel()
	var opened atomic.Int32
	s, sub := plain(t, func(conn net.Conn) {
		opened.Add(1)
		from := bufio.NewReader(conn)
		for heard(from) != nil {
			_, _ = io.WriteString(conn, fine)
		}
	})
	for range 3 {
		require.Equal(t, sluice.Delivered, s.Send(t.Context(), sub, &sluice.Event{ID: "1"}, 2).Outcome)
	}
	require.EqualValues(t, 3, opened.Load())
}

// The rest of a body that was not read to its end is not the next answer.
func TestWire_IsNotUsedWithARestOfABody(t *testing.T) {
	t.Parallel()
	answered := make(chan struct{}, 3)
	s, sub := plain(t, func(conn net.Conn) {
		heard(bufio.NewReader(conn))
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 200\r\n\r\n"+strings.Repeat("x", 100))
		<-answered
		_, _ = io.WriteString(conn, strings.Repeat("x", 100))
	})
	s.opts.MaxResponse = 100
	for range 3 {
		require.Equal(t, sluice.Delivered, s.Send(t.Context(), sub, &sluice.Event{ID: "1"}, 1).Outcome)
	}
	for range 3 {
		answered <- struct{}{}
	}
}

// A connection that the endpoint closed while it was free costs no attempt.
func TestWire_ClosedConnectionIsNotUsed(t *testing.T) {
	t.Parallel()
	closed := make(chan struct{})
	s, sub := plain(t, func(conn net.Conn) {
		heard(bufio.NewReader(conn))
		_, _ = io.WriteString(conn, fine) // without a word that this was all
		_ = conn.Close()
		closed <- struct{}{}
	})
	for range 3 {
		require.Equal(t, sluice.Delivered, s.Send(t.Context(), sub, &sluice.Event{ID: "1"}, 1).Outcome)
		<-closed
	}
}

func TestWire_PassesInformationalAnswers(t *testing.T) {
	t.Parallel()
	s, sub := plain(t, func(conn net.Conn) {
		from := bufio.NewReader(conn)
		for heard(from) != nil {
			_, _ = io.WriteString(conn, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n"+fine)
		}
	})
	for range 3 {
		a := s.Send(t.Context(), sub, &sluice.Event{ID: "1"}, 1)
		require.Equal(t, []any{sluice.Delivered, 200}, []any{a.Outcome, a.Status})
	}
	require.Len(t, s.wires.hosts[origin{host: strings.Split(sub.Endpoint.URL, "/")[2]}].free, 1)
}

// Of a header without an end only the first bytes are read.
func TestWire_BoundsTheHeaderOfAnswers(t *testing.T) {
	t.Parallel()
	wrote := make(chan int, 1)
	s, sub := plain(t, func(conn net.Conn) {
		heard(bufio.NewReader(conn))
		n, line := 0, "X-Line: "+strings.Repeat("x", 1000)+"\r\n"
		for _, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\n"); err == nil; n += len(line) {
			_, err = io.WriteString(conn, line)
		}
		wrote <- n
	})
	a := s.Send(t.Context(), sub, &sluice.Event{ID: "1"}, 1)
	require.Equal(t, []any{sluice.Failed, "no valid HTTP response"}, []any{a.Outcome, a.Error})
	require.Less(t, <-wrote, 32<<20, "what the sockets hold, and then the connection is closed")
}

// speaker returns a TLS endpoint with HTTP/1.1 alone, and a Sender that trusts it.
func speaker(t *testing.T) (*Sender, *sluice.Subscription, *sync.Map) {
	t.Helper()
	var seen sync.Map
	server := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen.Store(r.RemoteAddr, r.Proto) }))
	t.Cleanup(server.Close)
	s := New(Options{AllowCIDRs: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	t.Cleanup(s.Close)
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	s.transport.TLSClientConfig = &tls.Config{RootCAs: roots}
	return s, to(server.URL), &seen
}

// The first exchange behind TLS shows which protocol the host speaks.
func TestWire_SpeaksTLSToHostsWithoutHTTP2(t *testing.T) {
	t.Parallel()
	s, sub, seen := speaker(t)
	for range 4 {
		require.Equal(t, sluice.Delivered, s.Send(t.Context(), sub, &sluice.Event{ID: "1"}, 1).Outcome)
	}
	n := 0
	seen.Range(func(_, proto any) bool { n++; return proto == "HTTP/1.1" })
	require.Equal(t, 2, n, "one connection of the transport, and a wire")
	require.Len(t, s.wires.hosts[origin{true, strings.TrimPrefix(sub.Endpoint.URL, "https://")}].free, 1)
}

// A host that stops speaking HTTP/1.1 fails one attempt, and not all that follow.
func TestWire_HostMayChangeItsProtocol(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.EnableHTTP2 = true
	var modern atomic.Bool
	server.TLS = &tls.Config{GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if modern.Load() && !slices.Contains(hello.SupportedProtos, "h2") {
			return nil, errors.New("no common protocol")
		}
		config := server.TLS.Clone()
		if config.GetConfigForClient = nil; !modern.Load() {
			config.NextProtos = []string{"http/1.1"}
		}
		return config, nil
	}}
	server.StartTLS()
	t.Cleanup(server.Close)
	s := New(Options{AllowCIDRs: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	t.Cleanup(s.Close)
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	s.transport.TLSClientConfig = &tls.Config{RootCAs: roots}
	sub := to(server.URL)
	send := func() sluice.Outcome { return s.Send(t.Context(), sub, &sluice.Event{ID: "1"}, 1).Outcome }
	require.Equal(t, []sluice.Outcome{sluice.Delivered, sluice.Delivered}, []sluice.Outcome{send(), send()})
	modern.Store(true)
	server.CloseClientConnections()
	for tries := 0; send() != sluice.Delivered; tries++ {
		require.Less(t, tries, 2, "the transport speaks to it again")
	}
}

func TestWire_VerifiesCertificates(t *testing.T) { // S1-143
	t.Parallel()
	s, sub, _ := speaker(t)
	u, err := url.Parse(sub.Endpoint.URL)
	require.NoError(t, err)
	s.wires.speaks(u)
	s.transport.TLSClientConfig = nil
	a := s.Send(t.Context(), sub, &sluice.Event{ID: "1"}, 1)
	require.Equal(t, "certificate rejected: certificate signed by unknown authority", a.Error)
}

// The guard of addresses is that of the transport.
func TestWire_IsGuarded(t *testing.T) { // S1-143
	t.Parallel()
	s := New(Options{})
	t.Cleanup(s.Close)
	u, err := url.Parse("https://169.254.169.254/")
	require.NoError(t, err)
	s.wires.speaks(u)
	require.Equal(t, "address 169.254.169.254 is link-local", s.Send(t.Context(), to(u.String()), &sluice.Event{ID: "1"}, 1).Error)
}
