package endpoint

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

const unasked = "HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n"

// holding can keep what is written, so that several records, or a part of one, leave at once.
type holding struct {
	net.Conn

	on   bool
	held []byte
}

func (h *holding) Write(p []byte) (int, error) {
	if !h.on {
		return h.Conn.Write(p)
	}
	h.held = append(h.held, p...)
	return len(p), nil
}

// leave writes what is held, except for the last bytes.
func (h *holding) leave(but int) {
	n := len(h.held) - but
	_, _ = h.Conn.Write(h.held[:n])
	h.held = h.held[n:]
}

// hidden is plain behind TLS, for a Sender that knows that the host speaks HTTP/1.1.
func hidden(t *testing.T, config *tls.Config, handle func(*tls.Conn, *holding)) (*Sender, *sluice.Subscription, *url.URL) {
	t.Helper()
	known := httptest.NewTLSServer(nil) // for its certificate
	known.Close()
	config.Certificates, config.DynamicRecordSizingDisabled = known.TLS.Certificates, true
	s, sub := plain(t, func(conn net.Conn) {
		below := &holding{Conn: conn}
		over := tls.Server(below, config)
		if over.HandshakeContext(t.Context()) == nil {
			handle(over, below)
		}
	})
	roots := x509.NewCertPool()
	roots.AddCert(known.Certificate())
	s.transport.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	sub.Endpoint.URL = strings.Replace(sub.Endpoint.URL, "http:", "https:", 1)
	u, err := url.Parse(sub.Endpoint.URL)
	require.NoError(t, err)
	s.wires.speaks(u)
	return s, sub, u
}

// requireDelivered sends three events.
func requireDelivered(t *testing.T, s *Sender, sub *sluice.Subscription) {
	t.Helper()
	for range 3 {
		require.Equal(t, sluice.Delivered, s.Send(t.Context(), sub, &sluice.Event{ID: "1"}, 1).Outcome)
	}
}

// Behind TLS, too, a response that came before a request is not its answer, wherever it was kept.
func TestWire_UnaskedAnswerBehindTLSIsIgnored(t *testing.T) {
	t.Parallel()
	long := "HTTP/1.1 200 OK\r\nContent-Length: 10000\r\n\r\n" + strings.Repeat("x", 10000) // longer than the reader's buffer
	apart := func(but int) func(*tls.Conn, *holding) {
		return func(conn *tls.Conn, below *holding) {
			below.leave(0) // the rest of the record before
			below.on = true
			_, _ = io.WriteString(conn, fine)
			_, _ = io.WriteString(conn, unasked)
			below.leave(but)
		}
	}
	for name, answer := range map[string]func(*tls.Conn, *holding){
		"in one record": func(conn *tls.Conn, _ *holding) { _, _ = io.WriteString(conn, fine+unasked) },
		"decrypted":     func(conn *tls.Conn, _ *holding) { _, _ = io.WriteString(conn, long+unasked) },
		"read ahead":    apart(0),
		"a part":        apart(10),
	} {
		for version, max := range map[string]uint16{"1.2": tls.VersionTLS12, "1.3": tls.VersionTLS13} {
			t.Run(name+" with TLS "+version, func(t *testing.T) {
				t.Parallel()
				var opened atomic.Int32
				s, sub, _ := hidden(t, &tls.Config{MaxVersion: max, MinVersion: tls.VersionTLS12}, func(conn *tls.Conn, below *holding) {
					opened.Add(1)
					from := bufio.NewReader(conn)
					for heard(from) != nil {
						answer(conn, below)
					}
				})
				requireDelivered(t, s, sub)
				require.EqualValues(t, 3, opened.Load(), "the connection is used no more")
			})
		}
	}
}

// Messages of TLS itself on a free connection do not cost the connection.
func TestWire_SessionTicketIsNoAnswer(t *testing.T) {
	t.Parallel()
	var opened atomic.Int32
	shaken := make(chan struct{}, 1)
	// Because the server asks for a certificate, the ticket leaves after the client's handshake.
	config := &tls.Config{ClientAuth: tls.RequestClientCert, MinVersion: tls.VersionTLS13}
	s, sub, u := hidden(t, config, func(conn *tls.Conn, _ *holding) {
		opened.Add(1)
		shaken <- struct{}{}
		from := bufio.NewReader(conn)
		for heard(from) != nil {
			_, _ = io.WriteString(conn, fine)
		}
	})
	cache := tls.NewLRUClientSessionCache(1) // without one, the server sends no ticket
	s.transport.TLSClientConfig.ClientSessionCache = cache
	late, dial := make(chan struct{}), s.wires.dial
	s.wires.dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		<-late
		return dial(ctx, network, address)
	}
	_, wait := s.wires.pick(t.Context(), u)
	_, err := s.wires.await(t.Context(), wait, time.Now())
	require.ErrorIs(t, err, context.DeadlineExceeded)
	close(late)
	<-shaken // the ticket is in the socket
	require.Eventually(t, func() bool {
		s.wires.mu.Lock()
		defer s.wires.mu.Unlock()
		return len(wait.host.free) == 1
	}, time.Minute, time.Millisecond)
	requireDelivered(t, s, sub)
	require.EqualValues(t, 1, opened.Load())
	_, came := cache.Get(u.Hostname())
	require.True(t, came, "there was a ticket")
}

// The ends of records are found however they arrive.
func TestRecords_KnowTheirEnds(t *testing.T) {
	t.Parallel()
	stream := []byte("\x17\x03\x03\x00\x02ab\x17\x03\x03\x00\x00\x17\x03\x03\x00\x01c")
	ends := map[int]bool{0: true, 7: true, 12: true, 18: true}
	for size := 1; size <= len(stream); size++ {
		var r records
		for at := 0; at < len(stream); at += size {
			require.Equal(t, ends[at], r.whole(), "%d at %d", size, at)
			r.count(stream[at:min(at+size, len(stream))])
		}
		require.True(t, r.whole())
	}
}
