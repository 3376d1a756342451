package delivery_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sluice-io/sluice/internal/delivery"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// batched records the events of each request, and fails as a plan says.
type batched struct {
	endpoint

	asked [][]uint64
	plan  func(request int, events []uint64) bool // whether it fails
}

func (b *batched) Send(_ context.Context, sub *sluice.Subscription, ev *sluice.Event, number int, more ...*sluice.Event) sluice.Attempt {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := sluice.Attempt{Subscription: sub.ID, EventID: ev.ID, Seq: ev.Seq, Path: ev.Path, Number: number, StartedAt: time.Now(), Outcome: sluice.Delivered, Status: 200}
	events := []uint64{ev.Seq}
	for _, ev := range append([]*sluice.Event{ev}, more...) {
		a.Batch = append(a.Batch, sluice.EventRef{EventID: ev.ID, Seq: ev.Seq, Path: ev.Path})
	}
	for _, ev := range more {
		events = append(events, ev.Seq)
	}
	if len(more) == 0 {
		a.Batch = nil
	}
	b.asked = append(b.asked, events)
	if b.plan != nil && b.plan(len(b.asked), events) {
		a.Outcome, a.Status, a.Error = sluice.Failed, 500, "500"
	}
	return a
}

func (b *batched) requests() [][]uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.asked)
}

// batchWorld has n events on two paths, and an endpoint that records batches.
func batchWorld(t *testing.T, policy sluice.Policy, n int) (*world, *batched) {
	t.Helper()
	w := newWorld(t, connect(t), "n", policy)
	b := &batched{}
	w.ports = func(p *delivery.Deps) { p.Sender = b }
	for i := 1; i <= n; i++ {
		w.publish(t, sluice.Path(fmt.Sprintf("/a/%d", i%2)), fmt.Sprintf("e%d", i))
	}
	return w, b
}

func upTo(first, last uint64) (all []uint64) {
	for seq := first; seq <= last; seq++ {
		all = append(all, seq)
	}
	return all
}

// Issue 18, item 10: batches keep the order and lose nothing under failures.
func TestBatch_RandomCrashesKeepTheOrder(t *testing.T) {
	t.Parallel()
	store := connect(t)
	checkWithin(t, func(rt *rapid.T, checks int) {
		wait := sluice.Duration(rapid.SampledFrom([]time.Duration{0, 5 * time.Millisecond}).Draw(rt, "wait"))
		w := newWorld(rt, store, fmt.Sprintf("n%d", checks), sluice.Policy{Window: 8, Retry: quickRetries, Batch: sluice.Batch{Max: 5, Wait: wait}})
		w.endpoint.tight = rapid.Bool().Draw(rt, "tight")
		w.outlive(rt)
		require.True(rt, slices.IsSorted(w.endpoint.all))
		require.LessOrEqual(rt, slices.Max(append(w.endpoint.requests, 0)), 5)
	})
}

func TestBatch_FailedOneIsSentAgainUnchanged(t *testing.T) {
	t.Parallel()
	w, b := batchWorld(t, sluice.Policy{Batch: sluice.Batch{Max: 6, Wait: sluice.Duration(time.Minute)}, Retry: steps(200*time.Millisecond, 1000)}, 6)
	var joined atomic.Bool
	b.plan = func(request int, _ []uint64) bool { return request < 3 || !joined.Load() }
	proc := w.start(t)
	defer func() { proc.stop() }()
	eventually(t, "the first request", func() bool { return len(b.requests()) > 0 })
	for i := 7; i <= 9; i++ { // they do not join it
		w.publish(t, "/a/0", fmt.Sprintf("e%d", i))
	}
	eventually(t, "they wait behind it", func() bool { return w.status(t).AckFloor == 9 })
	joined.Store(true)
	eventually(t, "the others", func() bool { all := b.requests(); return all[len(all)-1][0] == 7 })
	all := b.requests()
	failed := len(all) - 1
	require.GreaterOrEqual(t, failed, 3)
	for _, one := range all[:failed] {
		require.Equal(t, upTo(1, 6), one)
	}
	require.Equal(t, upTo(7, 9), all[failed])

	w.unparkNow(t)
	require.Equal(t, append(slices.Repeat([]int{6}, failed), 3), w.history(t), "one record of an attempt each")
}

// unparkNow waits until no lane is parked.
func (w *world) unparkNow(t *testing.T) {
	t.Helper()
	eventually(t, "no parked lane", func() bool {
		parked, err := w.deliveries.Parked(t.Context(), w.sub)
		return err == nil && len(parked) == 0
	})
}

// history returns how many events each recorded attempt had, oldest first.
func (w *world) history(t *testing.T) (sizes []int) {
	t.Helper()
	for _, a := range w.attempts(t) {
		n := 0
		for range a.Events() {
			n++
		}
		sizes = append(sizes, n)
	}
	return sizes
}

func TestBatch_DeadOneBuriesEachEvent(t *testing.T) {
	t.Parallel()
	w, b := batchWorld(t, sluice.Policy{Batch: sluice.Batch{Max: 4, Wait: sluice.Duration(time.Minute)}, Retry: steps(time.Millisecond, 2)}, 8)
	b.plan = func(_ int, events []uint64) bool { return events[0] == 1 }
	proc := w.start(t)
	defer func() { proc.stop() }()
	eventually(t, "three requests", func() bool { return len(b.requests()) == 3 })
	require.Equal(t, [][]uint64{upTo(1, 4), upTo(1, 4), upTo(5, 8)}, b.requests())
	var buried []uint64
	eventually(t, "letters", func() bool {
		letters, err := w.deliveries.DeadLetters(t.Context(), w.sub, 1, 1<<62, 100)
		require.NoError(t, err)
		buried = nil
		for _, l := range letters {
			require.Equal(t, sluice.Exhausted, l.Reason)
			require.Equal(t, 2, l.Attempts)
			buried = append(buried, l.Seq)
		}
		return len(buried) == 4
	})
	require.Equal(t, upTo(1, 4), buried)
}

// An event that may not leave, or that the filter does not want, is in no batch: live and read back.
func TestBatch_LeavesOutWithheldAndUnwantedEvents(t *testing.T) {
	t.Parallel()
	w, b := batchWorld(t, sluice.Policy{Batch: sluice.Batch{Max: 4}, Retry: steps(time.Millisecond, 9)}, 0)
	w.watch.change(func(sub *sluice.Subscription) { sub.Filter = sluice.Filter{Types: []string{"t"}} })
	w.ports = func(p *delivery.Deps) { p.Sender, p.Gate = b, discreet{} }
	b.plan = func(request int, _ []uint64) bool { return request == 1 }
	var wanted []uint64
	for i := uint64(1); i <= 20; i++ {
		id := fmt.Sprintf("e%d", i)
		switch {
		case i%5 == 0:
			id = "secret" + id
			w.publish(t, "/a/x", id)
		case i%3 == 0:
			_, err := w.store.Log.Publish(t.Context(), w.sub.Namespace, []sluice.Event{{Path: "/a/x", ID: id, Type: "other", Source: "/test", Time: time.Now()}})
			require.NoError(t, err)
		default:
			wanted = append(wanted, i)
			w.publish(t, "/a/x", id)
		}
	}
	proc := w.start(t)
	defer func() { proc.stop() }()
	sent := func() (all []uint64) {
		for _, events := range b.requests()[1:] {
			all = append(all, events...)
		}
		return all
	}
	eventually(t, "all wanted ones", func() bool { return len(b.requests()) > 1 && len(sent()) >= len(wanted) })
	require.Equal(t, wanted, sent())
	w.unparkNow(t)
}

// A restart in the middle sends no event of a recorded batch again, and all others.
func TestBatch_RestartGoesOnBehindIt(t *testing.T) {
	t.Parallel()
	w, b := batchWorld(t, sluice.Policy{Batch: sluice.Batch{Max: 3, Wait: sluice.Duration(time.Minute)}}, 5)
	proc := w.start(t)
	eventually(t, "a request", func() bool { return len(b.requests()) == 1 })
	eventually(t, "its record", func() bool { return len(w.history(t)) == 1 })
	proc.crash()
	w.publish(t, "/a/x", "e6")
	proc = w.start(t)
	defer func() { proc.stop() }()
	eventually(t, "two requests", func() bool { return len(b.requests()) == 2 })
	require.Equal(t, [][]uint64{upTo(1, 3), upTo(4, 6)}, b.requests())
}

// Dead letters are sent again in batches, too, and each is deleted.
func TestBatch_RedrivesDeadLetters(t *testing.T) {
	t.Parallel()
	w, b := batchWorld(t, sluice.Policy{Batch: sluice.Batch{Max: 4, Wait: sluice.Duration(time.Minute)}, Retry: steps(time.Millisecond, 2)}, 4)
	b.plan = func(request int, _ []uint64) bool { return request < 3 }
	replays := watchReplays{w.deliveries.Replays(), w.sub.ID}
	w.replays = replays
	w.ports = func(p *delivery.Deps) { p.Sender, p.Replays, p.Letters = b, replays, w.deliveries }
	proc := w.start(t)
	defer func() { proc.stop() }()
	letters := func() int {
		found, err := w.deliveries.DeadLetters(t.Context(), w.sub, 1, 1<<62, 100)
		require.NoError(t, err)
		return len(found)
	}
	eventually(t, "dead letters", func() bool { return letters() == 4 })
	require.NoError(t, w.deliveries.Replays().Add(t.Context(), sluice.Replay{
		ID: "r", Subscription: w.sub.ID, Namespace: w.sub.Namespace, Kind: sluice.ReplayDeadLetters, From: 1, To: 1 << 62, Next: 1,
		Total: 4, State: sluice.ReplayRunning, Began: w.sub.Began(), CreatedAt: time.Now(),
	}))
	eventually(t, "no letters", func() bool { return letters() == 0 })
	var sent []uint64
	for _, events := range b.requests()[2:] {
		sent = append(sent, events...)
	}
	require.Equal(t, upTo(1, 4), sent)
}
