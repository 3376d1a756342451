package delivery_test

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/delivery"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// crier hears of dead letters as they are read from where they are stored, and asks how many there are whenever it does.
type crier struct {
	ask func() (sluice.Status, error)

	mu     sync.Mutex
	told   []model.BuriedLetter
	held   []string // ids
	still  []sluice.DeadLetter
	stored []uint64
	err    error
}

// follow has everything heard that is buried from now on, until the test ends.
func (c *crier) follow(t *testing.T, w *world) {
	t.Helper()
	_, err := w.store.LettersConsumer(t.Context())
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	var following sync.WaitGroup
	following.Go(func() { _ = w.deliveries.FollowLetters(ctx, c.hear) }) // it ends with ctx
	t.Cleanup(func() { cancel(); following.Wait() })
}

func (c *crier) hear(_ context.Context, letters []model.BuriedLetter, _ bool) error {
	st, err := c.ask()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.told, c.stored, c.err = append(c.told, letters...), append(c.stored, st.DeadLetters), errors.Join(c.err, err)
	return nil
}

func (c *crier) Held(_ *sluice.Subscription, d *sluice.DeadLetter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held = append(c.held, d.EventID)
}

func (c *crier) Throttled(*sluice.Subscription, string) {}

func (c *crier) Failing(*sluice.Subscription, int, time.Time) {}

func (c *crier) StillHeld(_ *sluice.Subscription, d *sluice.DeadLetter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.still = append(c.still, *d)
}

// stillHeld returns what was found held, in the order of the log.
func (c *crier) stillHeld() []sluice.DeadLetter {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.SortedFunc(slices.Values(c.still), func(a, b sluice.DeadLetter) int { return cmp.Compare(a.Seq, b.Seq) })
}

func (c *crier) Turned(*sluice.Subscription, sluice.Breaker, time.Time) {}

func (c *crier) StillFailing(*sluice.Subscription, int, time.Time) {}

func (c *crier) heard() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.told)
}

func TestDeadLetter_IsAnnouncedOnceStored(t *testing.T) { // S2-05, S2-06, S2-132
	t.Parallel()
	retries := quickRetries
	retries.MaxAttempts = 2
	w := newWorld(t, connect(t), "told", sluice.Policy{Retry: retries, Ordering: sluice.OrderAll})
	c := &crier{ask: func() (sluice.Status, error) { return w.deliveries.Status(t.Context(), w.sub) }}
	c.follow(t, w)
	for _, id := range []string{"d1", "d2", "d3"} {
		w.endpoint.fails[id] = 2
		w.publish(t, "/a/x", id)
	}
	w.publish(t, "/a/x", "good")
	proc := w.start(t)
	require.Eventually(t, func() bool { return w.endpoint.delivered() == 1 && c.heard() == 3 }, time.Minute, time.Millisecond)
	proc.stop()
	require.NoError(t, c.err)
	for i, n := range c.stored {
		require.GreaterOrEqual(t, n, uint64(i+1))
	}
	for i, d := range c.told {
		require.Equal(t, []any{w.endpoint.all[i], 2, sluice.Exhausted, "503"}, []any{d.Seq, d.Attempts, d.Reason, d.LastError})
	}
}

func TestDeadLetter_UnstoredOneIsNotAnnounced(t *testing.T) { // S2-05
	t.Parallel()
	retries := quickRetries
	retries.MaxAttempts = 1
	w := newWorld(t, connect(t), "untold", sluice.Policy{Retry: retries})
	w.endpoint.fails["d1"] = 1
	w.publish(t, "/a/x", "d1")
	c := &crier{ask: func() (sluice.Status, error) { return w.deliveries.Status(t.Context(), w.sub) }}
	c.follow(t, w)
	buried := make(chan struct{})
	w.ports = func(p *delivery.Deps) {
		process, _ := p.Log.(*process)
		p.Log = &buryCrash{process: process, crashed: buried}
	}
	proc := w.start(t)
	select {
	case <-buried:
	case <-time.After(time.Minute):
		require.FailNow(t, "nothing was to be buried")
	}
	proc.stop()
	require.Zero(t, c.heard())

	w.endpoint.mu.Lock()
	w.endpoint.fails["d1"] = 2 // the attempt is repeated
	w.endpoint.mu.Unlock()
	w.ports = nil
	proc = w.start(t)
	require.Eventually(t, func() bool { return c.heard() == 1 }, time.Minute, time.Millisecond)
	proc.stop()
	require.NoError(t, c.err)
	require.Equal(t, []uint64{1}, c.stored)
}

// A look of a subscription that wants everything finds nothing that it lost in what only the
// server told (decision 0007).
func TestSystemEvents_AreSettledUnseen(t *testing.T) {
	t.Parallel()
	w := newWorld(t, connect(t), "own", sluice.Policy{})
	w.sub.Pattern = "/**"
	for _, path := range []sluice.Path{"/_sys/subscriptions/x", "/a", "/_sys/deliveries/x", "/b"} {
		w.publish(t, path, "e"+string(path))
	}
	proc := w.start(t)
	require.Eventually(t, func() bool {
		st, err := w.deliveries.Status(t.Context(), w.sub)
		return err == nil && st.AckFloor == 4 && st.Backlog == 0
	}, time.Minute, time.Millisecond)
	proc.stop()
	require.ElementsMatch(t, []uint64{2, 4}, w.endpoint.all, "two lanes, in any order")
	st, err := w.deliveries.Status(t.Context(), w.sub)
	require.NoError(t, err)
	require.Zero(t, st.DeadLetters)
}
