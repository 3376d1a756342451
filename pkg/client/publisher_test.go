package client_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// moody is a server that stores batches whole or not at all, each event once, if it is in the mood.
type moody struct {
	mu      sync.Mutex
	chance  *rand.Rand
	stored  []string // the events' data, as it came
	known   map[string]bool
	longest int
}

func (m *moody) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	if body[0] != '[' {
		body = fmt.Appendf(nil, "[%s]", body)
	}
	var events []struct{ ID, Path, Type, Data string }
	if err := json.Unmarshal(body, &events); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	mood := m.chance.IntN(10)
	m.longest = max(m.longest, len(events))
	if mood < 2 {
		w.WriteHeader([]int{http.StatusServiceUnavailable, http.StatusTooManyRequests}[mood])
		return
	}
	answer := struct {
		Events []sluice.Stored `json:"events"`
	}{}
	for _, e := range events {
		if e.Type == "bad" {
			w.WriteHeader(http.StatusUnprocessableEntity)
			return
		}
		answer.Events = append(answer.Events, sluice.Stored{ID: e.ID})
	}
	for _, e := range events {
		if !m.known[e.ID] {
			m.known[e.ID] = true
			m.stored = append(m.stored, e.Data)
		}
	}
	if mood == 2 { // stored, and the answer is lost
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(answer)
}

func numbered(who, i int) sluice.Event {
	ev := sluice.Event{Path: "/a", ContentType: "text/plain", Data: fmt.Appendf(nil, "%d %d", who, i)}
	if i%37 == 36 {
		ev.Type = "bad"
	}
	return ev
}

// What a Publisher took arrives once and in its order, but for what the server refuses; every event is counted once (S2-79, S2-134).
func TestPublisher_DeliversOnceAndInOrder(t *testing.T) {
	t.Parallel()
	const who, each = 6, 200
	m := &moody{chance: rand.New(rand.NewPCG(7, 11)), known: map[string]bool{}}
	srv := httptest.NewServer(m)
	t.Cleanup(srv.Close)
	c := client.New(srv.URL, "tok")
	c.Retries = 0
	t.Cleanup(c.HTTP.CloseIdleConnections)
	refused := map[string]bool{}
	p := c.NewPublisher("acme", client.PublisherOptions{Queue: who * each / 2, Batch: 50, Dropped: func(ev *sluice.Event, err error) {
		if sluice.CodeOf(err) != "" {
			refused[string(ev.Data)] = true
		}
	}})
	ended := make(chan error, 1)
	go func() { ended <- p.Run(t.Context()) }()
	var group sync.WaitGroup
	var mu sync.Mutex
	var full uint64
	want := map[int][]string{}
	for n := range who {
		group.Go(func() {
			for i := range each {
				ev := numbered(n, i)
				text := string(ev.Data)
				taken := p.Emit(ev)
				clear(ev.Data) // it is ours again
				mu.Lock()
				switch {
				case !taken:
					full++
				case ev.Type != "bad":
					want[n] = append(want[n], text)
				}
				mu.Unlock()
			}
		})
	}
	group.Wait()
	require.NoError(t, p.Close(t.Context()))
	require.NoError(t, <-ended)
	require.False(t, p.Emit(numbered(0, 0)), "it is closed")

	got := map[int][]string{}
	for _, text := range m.stored {
		var n, i int
		_, err := fmt.Sscan(text, &n, &i)
		require.NoError(t, err)
		got[n] = append(got[n], text)
	}
	require.Equal(t, want, got)
	require.Positive(t, full, "the queue is short")
	require.NotEmpty(t, refused)
	require.LessOrEqual(t, m.longest, 50)
	require.Equal(t, client.PublisherStats{Stored: uint64(len(m.stored)), Dropped: full + uint64(len(refused)) + 1}, p.Stats())
}

// A server that does not answer, or is absent, does not delay Emit (S2-79, S2-92, S2-93, S2-134).
func TestEmit_DoesNotWaitForTheServer(t *testing.T) {
	t.Parallel()
	silence := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-silence }))
	t.Cleanup(srv.Close)
	t.Cleanup(func() { close(silence) })
	for name, address := range map[string]string{"a silent one": srv.URL, "none": "http://127.0.0.1:1"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := client.New(address, "")
			c.HTTP.Transport = &http.Transport{DisableKeepAlives: true}
			p := c.NewPublisher("acme", client.PublisherOptions{Queue: 10, Batch: 5})
			ended := make(chan error, 1)
			go func() { ended <- p.Run(t.Context()) }()
			const who, each = 8, 500
			sum := emitAtOnce(p, who, each)
			require.LessOrEqual(t, sum, 10+5, "no more than the queue and one batch")
			stats := p.Stats()
			require.Equal(t, client.PublisherStats{Dropped: uint64(who*each - sum), Waiting: sum}, stats)

			limit, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			err := p.Close(limit)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorContains(t, err, fmt.Sprintf("%d events were not sent", sum))
			require.Error(t, <-ended)
			require.Equal(t, client.PublisherStats{Dropped: who * each}, p.Stats())
		})
	}
}

// emitAtOnce emits as often as each of so many says, and returns how many events were taken.
func emitAtOnce(p *client.Publisher, who, each int) int {
	var group sync.WaitGroup
	var taken atomic.Int64
	for range who {
		group.Go(func() {
			for i := range each {
				if p.Emit(sluice.Event{Path: "/a", Data: fmt.Append(nil, i)}) {
					taken.Add(1)
				}
			}
		})
	}
	group.Wait()
	return int(taken.Load())
}

func TestPublisher_WithoutRunLosesItsEvents(t *testing.T) {
	t.Parallel()
	s := serve(t, answer{201, `{"events":[{"id":"a","seq":1}]}`})
	require.NoError(t, s.NewPublisher("acme", client.PublisherOptions{}).Close(t.Context()), "of nothing nothing is lost")

	p := s.NewPublisher("acme", client.PublisherOptions{})
	require.False(t, p.Emit(sluice.Event{Path: "no path"}))
	require.True(t, p.Emit(sluice.Event{Path: "/a"}))
	over, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, p.Close(over), context.Canceled)
	require.NoError(t, p.Run(t.Context()), "too late")
	require.Equal(t, sluice.Conflict, sluice.CodeOf(p.Run(t.Context())))
	require.Equal(t, client.PublisherStats{Dropped: 2}, p.Stats())

	stored, err := p.Publish(t.Context(), sluice.Event{Path: "/a"})
	require.NoError(t, err)
	require.Equal(t, uint64(1), stored[0].Seq)
}

// A publisher whose Run ends says at Close what it has left.
func TestPublisher_CloseCountsUnsentEventsAfterRun(t *testing.T) {
	t.Parallel()
	p := serve(t, answer{201, `{}`}).NewPublisher("acme", client.PublisherOptions{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.True(t, p.Emit(sluice.Event{Path: "/a"}))
	require.ErrorIs(t, p.Run(ctx), context.Canceled)
	require.Equal(t, 1, p.Stats().Waiting)
	require.ErrorContains(t, p.Close(t.Context()), "1 events were not sent: the publisher is no longer running")
}

// An event that is emitted while the publisher closes is counted once, and so is one that was on its way when Run panicked.
func TestPublisher_CountsEveryEventAtItsEnd(t *testing.T) {
	t.Parallel()
	m := &moody{chance: rand.New(rand.NewPCG(3, 5)), known: map[string]bool{}}
	srv := httptest.NewServer(m)
	t.Cleanup(srv.Close)
	c := client.New(srv.URL, "tok")
	t.Cleanup(c.HTTP.CloseIdleConnections)
	for _, panics := range []bool{false, true} {
		var once atomic.Bool
		once.Store(!panics)
		p := c.NewPublisher("acme", client.PublisherOptions{Queue: 500, Batch: 20, Dropped: func(*sluice.Event, error) {
			if once.CompareAndSwap(false, true) {
				panic("no")
			}
		}})
		ended := make(chan any, 1)
		go func() {
			defer func() { ended <- recover() }()
			_ = p.Run(t.Context())
		}()
		var closing sync.WaitGroup
		if !panics {
			closing.Go(func() { _ = p.Close(t.Context()) })
		}
		var group sync.WaitGroup
		for n := range 4 {
			group.Go(func() {
				for i := range 200 {
					p.Emit(numbered(n, i))
				}
			})
		}
		group.Wait()
		closing.Wait()
		if panics {
			require.Equal(t, "no", <-ended)
			require.ErrorContains(t, p.Close(t.Context()), "were not sent")
		} else {
			require.NoError(t, p.Close(t.Context()))
		}
		stats := p.Stats()
		require.Zero(t, stats.Waiting)
		require.Equal(t, uint64(800), stats.Stored+stats.Dropped)
	}
}

// A token that is not valid makes one request, not one for each event.
func TestPublisher_InvalidTokenMakesOneRequest(t *testing.T) {
	t.Parallel()
	s := serve(t, answer{401, `{}`})
	p := s.NewPublisher("acme", client.PublisherOptions{})
	for range 20 {
		require.True(t, p.Emit(sluice.Event{Path: "/a"}))
	}
	ended := make(chan error, 1)
	go func() { ended <- p.Run(t.Context()) }()
	require.NoError(t, p.Close(t.Context()))
	require.NoError(t, <-ended)
	require.Len(t, s.requests(), 1)
	require.Equal(t, client.PublisherStats{Dropped: 20}, p.Stats())
}
