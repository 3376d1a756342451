package records_test

import (
	"crypto/rand"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/testkit/faulttest"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/internal/wake"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// appendMany appends to so many streams.
func appendMany(t *testing.T, s *wakeSite, n int) {
	t.Helper()
	for from := 0; from < n; from += 1000 {
		var events []sluice.Event
		for i := from; i < min(from+1000, n); i++ {
			events = append(events, sluice.Event{ID: rand.Text(), Namespace: s.sub.Namespace, Path: sluice.Path(fmt.Sprintf("/a/agent-%06d", i)), Data: []byte("x")})
		}
		_, err := s.store.Log.Publish(t.Context(), s.sub.Namespace, events)
		require.NoError(t, err)
	}
}

// idle returns how many consumers an engine has that are idle.
func (n *wakeNode) idle() (count int) {
	for _, g := range n.engine.Gauges() {
		count += g.Consumers[sluice.WakeIdle]
	}
	return count
}

// used returns the bytes of the heap that are in use.
func used() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// One subscription has as many consumers as there are streams that it matches: those that were there before it have
// theirs as well, each is one record, and little memory (issue 5, "Scale": 100,000, with SLUICE_LONG).
func TestSubscription_HasManyConsumers(t *testing.T) { //nolint:paralleltest // it measures the memory of the process
	n := 500
	if faulttest.Long() {
		n = 100_000
	}
	tick := time.Duration(n) * 5 * time.Microsecond // to count them takes a while
	limit := time.Minute + time.Duration(n)*5*time.Millisecond
	server := natstest.Listening(t)
	store := storeOn(t, server)
	var wakes atomic.Int64
	last := make(chan time.Time, 1)
	policy := sluice.Policy{Window: 64}
	answer := func(wake.Letter) (int, string) {
		wakes.Add(1)
		select {
		case last <- time.Now():
		default:
		}
		return 200, `{"done":true}`
	}
	before := openSite(t, store, "before", policy, uint64(n)+1)
	appendMany(t, before, n)

	begin := func(s *wakeSite) (*wakeNode, time.Duration) {
		s.post = answer
		began := time.Now()
		node, err := s.node(store, true, nil)
		require.NoError(t, err)
		require.Eventually(t, func() bool { return node.idle() == n }, limit, tick)
		return node, time.Since(began)
	}
	node, took := begin(before)
	t.Logf("%d streams that were there before have their consumers after %s", n, took.Round(time.Millisecond))
	require.Zero(t, wakes.Load(), "no consumer is woken for earlier events")
	node.stop()

	floor := used()
	node, took = begin(before)
	each := float64(int64(used())-int64(floor)) / float64(n)
	t.Logf("a server that begins knows all of them after %s; each takes %.0f bytes", took.Round(time.Millisecond), each)
	if file := os.Getenv("SLUICE_HEAP"); file != "" {
		out, err := os.Create(file)
		require.NoError(t, err)
		require.NoError(t, pprof.WriteHeapProfile(out))
		require.NoError(t, out.Close())
	}
	if faulttest.Long() {
		require.Less(t, each, 1024.0)
	}

	const some = 50
	var delays []time.Duration
	for i := range some {
		for len(last) > 0 {
			<-last
		}
		began := time.Now()
		path := sluice.Path(fmt.Sprintf("/a/agent-%06d", i*(n/some)))
		_, err := before.append(path)
		require.NoError(t, err)
		delays = append(delays, (<-last).Sub(began))
		require.True(t, soon(limit, func() bool { return before.record(path).State == sluice.WakeIdle }))
	}
	slices.Sort(delays)
	t.Logf("one of them is woken %s after an append began (the slowest of %d: %s)", delays[some/2], some, delays[some-1])
	require.EqualValues(t, some, wakes.Load())
	node.stop()

	after := openSite(t, store, "after", policy, 1)
	after.post = answer
	node, err := after.node(store, true, nil)
	require.NoError(t, err)
	began := time.Now()
	appendMany(t, after, n)
	appended := time.Since(began)
	require.Eventually(t, func() bool { return node.idle() == n && wakes.Load() == int64(some+n) }, limit, tick)
	t.Logf("%d streams that begin (in %s) have been told of and are idle after %s", n, appended.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
	node.stop()
}
