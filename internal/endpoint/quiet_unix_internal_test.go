//go:build unix

package endpoint

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/url"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// requireArrival waits until a connection has something to read, and reads nothing.
func requireArrival(t *testing.T, c *wire) {
	t.Helper()
	require.Eventually(t, func() bool {
		n := 0
		require.NoError(t, c.raw.Control(func(fd uintptr) {
			n, _, _ = syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK)
		}))
		return n > 0
	}, time.Minute, time.Millisecond)
}

// requireFree waits until one connection of a host is free, and returns it.
func requireFree(t *testing.T, s *Sender, u *url.URL) (c *wire) {
	t.Helper()
	require.Eventually(t, func() bool {
		s.wires.mu.Lock()
		defer s.wires.mu.Unlock()
		if h := s.wires.host(u); len(h.free) == 1 {
			c = h.free[0]
		}
		return c != nil
	}, time.Minute, time.Millisecond)
	return c
}

// A response that came on a free connection is not the answer to the next request.
func TestWire_LateUnaskedAnswerIsIgnored(t *testing.T) { // C06
	t.Parallel()
	wrote := make(chan struct{})
	answer := func(conn net.Conn) {
		from := bufio.NewReader(conn)
		for heard(from) != nil {
			_, _ = io.WriteString(conn, fine)
			wrote <- struct{}{} // the answer was read
			_, _ = io.WriteString(conn, unasked)
		}
	}
	three := func(s *Sender, sub *sluice.Subscription, u *url.URL) {
		for range 3 {
			require.Equal(t, sluice.Delivered, s.Send(t.Context(), sub, &sluice.Event{ID: "1"}, 1).Outcome)
			<-wrote
			requireArrival(t, requireFree(t, s, u))
		}
	}
	s, sub := plain(t, answer)
	u, err := url.Parse(sub.Endpoint.URL)
	require.NoError(t, err)
	three(s, sub, u)
	three(hidden(t, &tls.Config{MinVersion: tls.VersionTLS12}, func(conn *tls.Conn, _ *holding) { answer(conn) }))
}

// A connection that goes from one attempt to the next is looked at as a free one is.
func TestWires_HandOverNoUnaskedAnswer(t *testing.T) {
	t.Parallel()
	speak := make(chan struct{}, 1)
	s, sub := plain(t, func(conn net.Conn) {
		<-speak
		_, _ = io.WriteString(conn, unasked)
		_, _ = io.Copy(io.Discard, conn)
	})
	s.wires.enough, s.wires.soon = 1, time.Hour
	u, err := url.Parse(sub.Endpoint.URL)
	require.NoError(t, err)
	until := time.Now().Add(time.Minute)
	first, _, err := s.wires.take(t.Context(), u, until)
	require.NoError(t, err)
	first.served = true
	got := make(chan *wire)
	go func() {
		c, _, _ := s.wires.take(context.WithoutCancel(t.Context()), u, until)
		got <- c
	}()
	require.Eventually(t, func() bool {
		s.wires.mu.Lock()
		defer s.wires.mu.Unlock()
		return len(first.host.waiting) == 1
	}, time.Minute, time.Millisecond)
	speak <- struct{}{}
	requireArrival(t, first)
	s.wires.put(first)
	second := <-got
	close(speak)
	require.NotNil(t, second)
	require.NotSame(t, first, second)
	s.wires.put(second)
}

// An attempt that is interrupted resets its connection behind TLS, too, so that nothing more leaves.
func TestWire_InterruptedAttemptBehindTLSIsReset(t *testing.T) { // S0-60, C43
	t.Parallel()
	asked, end := make(chan struct{}), make(chan error, 1)
	s, sub, _ := hidden(t, &tls.Config{MinVersion: tls.VersionTLS12}, func(conn *tls.Conn, below *holding) {
		if heard(bufio.NewReader(conn)) == nil {
			return
		}
		close(asked)
		_, err := io.Copy(io.Discard, below.Conn)
		end <- err
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		<-asked
		cancel()
	}()
	require.Equal(t, "interrupted", s.Send(ctx, sub, &sluice.Event{ID: "1"}, 1).Error)
	require.ErrorIs(t, <-end, syscall.ECONNRESET)
}
