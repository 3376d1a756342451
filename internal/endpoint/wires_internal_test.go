package endpoint

import (
	"context"
	"errors"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// piped returns wires whose connections lead nowhere, and the number that was made.
func piped(t *testing.T, failing error) (*wires, func() int) {
	t.Helper()
	var mu sync.Mutex
	n := 0
	w := newWires(func(context.Context, string, string) (net.Conn, error) {
		mu.Lock()
		defer mu.Unlock()
		n++
		if failing != nil {
			return nil, failing
		}
		conn, other := net.Pipe()
		t.Cleanup(func() { _ = other.Close() })
		return conn, nil
	}, nil)
	w.enough, w.soon = 2, time.Hour
	t.Cleanup(w.close)
	return w, func() int {
		mu.Lock()
		defer mu.Unlock()
		return n
	}
}

// A host that answers quickly needs no more connections than keep the processors busy; one that does not
// gets twice as many at each look.
func TestWires_GrowWhileAnswersAreSlow(t *testing.T) {
	t.Parallel()
	w, made := piped(t, nil)
	u := &url.URL{Scheme: "http", Host: "a"}
	got := make(chan *wire, 20)
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			c, _, err := w.take(context.Background(), u, time.Now().Add(time.Minute))
			if err == nil {
				got <- c
			}
		})
	}
	first, second := <-got, <-got
	host := first.host
	waiting := func(n int) func() bool {
		return func() bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			return len(host.waiting) == n
		}
	}
	require.Eventually(t, waiting(18), time.Minute, time.Millisecond)
	w.look(t.Context(), host)
	require.Eventually(t, waiting(16), time.Minute, time.Millisecond, "none was released")
	third, fourth := <-got, <-got
	for _, c := range []*wire{first, second, third, fourth} {
		c.served = true
		w.put(c)
		<-got
	}
	w.look(t.Context(), host)
	require.Equal(t, 4, made(), "each was released once: they are enough")
	w.look(t.Context(), host)
	require.Eventually(t, waiting(8), time.Minute, time.Millisecond)
	require.Equal(t, 8, made())
	w.drop(t.Context(), first)
	require.Eventually(t, waiting(7), time.Minute, time.Millisecond, "one is made in the place of one that was closed")
	for range 7 {
		c := <-got
		w.put(c)
	}
	all.Wait()
}

// Each attempt that waits for a host out of reach is told, and none is kept.
func TestWires_TellAllWaitersOfAFailure(t *testing.T) {
	t.Parallel()
	failed := errors.New("no way")
	w, _ := piped(t, failed)
	w.soon = time.Millisecond
	u := &url.URL{Scheme: "http", Host: "a"}
	errs := make(chan error, 20)
	for range cap(errs) {
		go func() {
			_, _, err := w.take(context.Background(), u, time.Now().Add(time.Minute))
			errs <- err
		}()
	}
	for range cap(errs) {
		require.ErrorIs(t, <-errs, failed)
	}
	require.Empty(t, w.hosts[originOf(u)].waiting)
}

// An attempt that gives up while it waits leaves what comes to others.
func TestWires_KeepAConnectionThatCameTooLate(t *testing.T) {
	t.Parallel()
	w, _ := piped(t, nil)
	late, dial := make(chan struct{}), w.dial
	w.dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		<-late
		return dial(ctx, network, address)
	}
	u := &url.URL{Scheme: "http", Host: "a"}
	_, wait := w.pick(t.Context(), u)
	_, err := w.await(t.Context(), wait, time.Now())
	require.ErrorIs(t, err, context.DeadlineExceeded)
	close(late)
	c, _, err := w.take(t.Context(), u, time.Now().Add(time.Minute))
	require.NoError(t, err)
	w.put(c)
	require.Empty(t, wait.host.waiting)
}
