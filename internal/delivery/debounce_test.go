package delivery_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sluice-io/sluice/internal/delivery"
	"github.com/sluice-io/sluice/pkg/sluice"
)

func quiet(d time.Duration) sluice.Policy {
	return sluice.Policy{Debounce: sluice.Debounce{Quiet: sluice.Duration(d)}, Retry: quickRetries}
}

// arrived returns the sequences of successful requests in order.
func (b *batched) arrived() []uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []uint64
	for i, events := range b.asked {
		if b.plan == nil || !b.plan(i+1, events) {
			all = append(all, events[0])
		}
	}
	return all
}

// Issue 18, item 10: the latest event of each path stands for those before it.
func TestDebounce_SendsTheLatestOfAPathOnce(t *testing.T) {
	t.Parallel()
	w, b := batchWorld(t, quiet(10*time.Second), 100) // on two paths
	proc := w.start(t)
	defer func() { proc.stop() }()
	eventually(t, "one of each path", func() bool { return len(b.arrived()) == 2 })
	w.unparkNow(t)
	require.ElementsMatch(t, []uint64{99, 100}, b.arrived())
	trail, err := w.deliveries.Trail(t.Context(), w.sub, "e7")
	require.NoError(t, err)
	require.Equal(t, "e99", trail.SupersededBy.EventID)
	trail, err = w.deliveries.Trail(t.Context(), w.sub, "e99")
	require.NoError(t, err)
	require.Nil(t, trail.SupersededBy)

	w.publish(t, "/a/1", "e101")
	eventually(t, "the next one", func() bool { return len(b.arrived()) == 3 })
	require.Equal(t, uint64(101), b.arrived()[2])
	w.unparkNow(t)
}

// A newer event takes the place of one that failed.
func TestDebounce_RetriesWithTheLatest(t *testing.T) {
	t.Parallel()
	policy := quiet(time.Second)
	policy.Retry = steps(5*time.Second, 9)
	w, b := batchWorld(t, policy, 0)
	b.plan = func(_ int, events []uint64) bool { return events[0] != 5 }
	w.publish(t, "/a/x", "e1")
	proc := w.start(t)
	defer func() { proc.stop() }()
	eventually(t, "a failure", func() bool { return len(b.requests()) > 0 })
	for i := 2; i <= 5; i++ {
		w.publish(t, "/a/x", fmt.Sprintf("e%d", i))
	}
	w.unparkNow(t)
	require.Equal(t, []uint64{5}, b.arrived())
}

// A replay is asked for, and sends each event.
func TestDebounce_ReplaySendsEachEvent(t *testing.T) {
	t.Parallel()
	w, b := batchWorld(t, quiet(time.Second), 6)
	replays := watchReplays{w.deliveries.Replays(), w.sub.ID}
	w.replays = replays
	w.ports = func(p *delivery.Deps) { p.Sender, p.Replays = b, replays }
	proc := w.start(t)
	defer func() { proc.stop() }()
	eventually(t, "the latest", func() bool { return len(b.arrived()) == 2 })
	w.unparkNow(t)
	require.NoError(t, w.deliveries.Replays().Add(t.Context(), sluice.Replay{
		ID: "r", Subscription: w.sub.ID, Namespace: w.sub.Namespace, Kind: sluice.ReplayRange, From: 1, To: 6, Next: 1,
		Total: 6, State: sluice.ReplayRunning, Began: w.sub.Began(), CreatedAt: time.Now(),
	}))
	eventually(t, "all", func() bool { return len(b.arrived()) == 8 })
	require.ElementsMatch(t, []uint64{1, 2, 3, 4, 5, 6}, b.arrived()[2:])
}

// Under failures and kills, the last event of each path arrives, and none after a later one of its path, but
// for the one that was sent when the process died.
func TestDebounce_RandomCrashesEndWithTheLatest(t *testing.T) {
	t.Parallel()
	store := connect(t)
	checkWithin(t, func(rt *rapid.T, checks int) {
		w := newWorld(rt, store, fmt.Sprintf("n%d", checks), quiet(100*time.Millisecond))
		b := &batched{}
		w.ports = func(p *delivery.Deps) { p.Sender = b }
		fails := rapid.SliceOfN(rapid.Bool(), 16, 16).Draw(rt, "fails")
		b.plan = func(request int, _ []uint64) bool { return fails[request%len(fails)] && request%3 == 0 }
		proc := w.start(rt)
		defer func() { proc.stop() }()
		last := map[sluice.Path]uint64{}
		seq := uint64(0)
		rt.Repeat(map[string]func(*rapid.T){
			"publish": func(rt *rapid.T) {
				for range rapid.IntRange(1, 20).Draw(rt, "events") {
					seq++
					path := sluice.Path(rapid.SampledFrom([]string{"/a/1", "/a/2", "/a/b/3"}).Draw(rt, "path"))
					w.publish(rt, path, fmt.Sprintf("e%d", seq))
					last[path] = seq
				}
			},
			"crash": func(rt *rapid.T) {
				proc.crash()
				proc = w.start(rt)
			},
			"some arrive": func(rt *rapid.T) {
				n := len(b.arrived())
				if n < len(last) {
					require.Eventually(rt, func() bool { return len(b.arrived()) > n }, patience, 2*time.Millisecond)
				}
			},
		})
		require.Eventually(rt, func() bool { return b.has(last) }, patience, 2*time.Millisecond)
		w.unpark(rt)
		proc.stop()
		paths := w.pathsOf(rt)
		latest := map[sluice.Path]uint64{}
		for _, seq := range b.arrived() {
			require.GreaterOrEqual(rt, seq, latest[paths[seq]], "none overtakes a later one: %v asked %v paths %v", b.arrived(), b.asked, paths)
			latest[paths[seq]] = seq
		}
	})
}

// has reports whether the last event of each path arrived.
func (b *batched) has(last map[sluice.Path]uint64) bool {
	arrived := b.arrived()
	for _, seq := range last {
		if !slices.Contains(arrived, seq) {
			return false
		}
	}
	return true
}

// pathsOf returns the path of each event in the log.
func (w *world) pathsOf(t require.TestingT) map[uint64]sluice.Path {
	paths := map[uint64]sluice.Path{}
	events, _, err := w.store.Log.ReadLane(context.Background(), w.sub, "", 1, 10_000)
	require.NoError(t, err)
	for _, ev := range events {
		paths[ev.Seq] = ev.Path
	}
	return paths
}
