package natsstore

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/streams"
)

// owned returns how many of a hundred subscriptions a replica has.
func owned(l *Leases) (n int) {
	for i := range 100 {
		if l.Owns(fmt.Sprint("s", i)) {
			n++
		}
	}
	return n
}

// slowLeases returns the leases of the replica one. Rounds are an hour apart, so that no clock decides.
func slowLeases(t *testing.T) *Leases {
	t.Helper()
	s, err := Connect(t.Context(), Options{Conn: natstest.New(t), LeaseTTL: 3 * time.Hour})
	require.NoError(t, err)
	t.Cleanup(s.Close)
	require.NoError(t, s.Provision(t.Context()))
	l, err := s.Leases(t.Context(), "one", nil)
	require.NoError(t, err)
	return l
}

// S4-22: a replica that joins gets its share when what is under way elsewhere is finished, and
// not before: it would be sent twice.
func TestLease_IsHandedOverAfterItsWork(t *testing.T) {
	t.Parallel()
	one := slowLeases(t)
	two, err := one.store.Leases(t.Context(), "two", nil)
	require.NoError(t, err)
	round := func(l *Leases) {
		_, said := l.round(t.Context())
		require.True(t, said)
	}
	round(one)
	require.Equal(t, 100, owned(one))
	round(two)
	require.Zero(t, owned(two), "the other one has all of them")
	holder, err := two.Holder(t.Context(), "s1")
	require.NoError(t, err)
	require.Equal(t, "one", holder)
	holder, err = two.Holder(t.Context(), "module/none")
	require.NoError(t, err)
	require.Empty(t, holder)

	settled, told := make(chan struct{}), make(chan struct{})
	tell := sync.OnceFunc(func() { close(told) })
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		_ = one.Run(ctx, func() <-chan struct{} { tell(); return settled }) // it only ends with ctx
	})
	defer func() { cancel(); running.Wait() }()
	<-told
	left := owned(one)
	require.Less(t, left, 100)
	for range 2 {
		round(two)
		require.Zero(t, owned(two), "deliveries are in flight")
	}
	close(settled)
	require.Eventually(t, func() bool {
		one.Poke() // the store may not answer a round
		two.round(t.Context())
		return owned(two) == 100-left
	}, time.Minute, time.Millisecond)
	require.Equal(t, left, owned(one))
}

// blind is a bucket in which nothing can be listed: the cluster has no leader that creates consumers.
type blind struct{ jetstream.KeyValue }

func (blind) Watch(context.Context, string, ...jetstream.WatchOpt) (jetstream.KeyWatcher, error) {
	return nil, jetstream.ErrNoStreamResponse
}

// Fault F8: a replica keeps its leases as long as it can renew them, also while it cannot see the others.
func TestLease_RenewedWhileReplicasCannotBeListed(t *testing.T) {
	t.Parallel()
	l := slowLeases(t)
	_, said := l.round(t.Context())
	require.True(t, said)
	before := maps.Clone(l.held)
	require.Len(t, before, shards)
	l.kv = blind{l.kv}
	different, said := l.round(t.Context())
	require.False(t, different || said)
	for unit, held := range l.held {
		require.True(t, held.until.After(before[unit].until), unit)
	}
	require.Equal(t, 100, owned(l))
}

func TestLease_ReplicasShareTheShards(t *testing.T) {
	t.Parallel()
	const rounds = 500
	alone := 0
	for range rounds {
		replicas := []string{uuid.NewString(), uuid.NewString()}
		share := map[string]int{}
		for shard := range shards {
			share[preferred(strconv.Itoa(shard), replicas)]++
		}
		if len(share) == 1 {
			alone++
		}
	}
	require.LessOrEqual(t, alone, rounds/100, "how often one of two has all the work")
}

// F-clock: a machine that was suspended has no lease any more when it wakes, though its monotonic clock stood still,
// and a clock on the wall that is set back makes no lease longer.
func TestLease_EndsByBothClocks(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		monotonic, wall time.Duration // that are left
		want            bool
	}{
		"both say that it holds":       {time.Second, time.Second, true},
		"its end":                      {0, 0, false},
		"both say that it is over":     {-1, -1, false},
		"suspended for a minute":       {13 * time.Second, -47 * time.Second, false},
		"suspended until its end":      {13 * time.Second, 0, false},
		"suspended for a moment":       {13 * time.Second, 12 * time.Second, true},
		"the wall is set back an hour": {-time.Second, time.Hour, false},
	} {
		require.Equal(t, c.want, holds(c.monotonic, c.wall), name)
	}
	now := time.Now()
	monotonic, wall := remaining(now, now.Add(time.Second))
	require.Equal(t, []time.Duration{time.Second, time.Second}, []time.Duration{monotonic, wall})
	_, wall = remaining(now.Round(0).Add(time.Minute), now.Add(time.Second))
	require.Equal(t, -59*time.Second, wall)
}

// A module's lease is of a replica that can run it, and goes to another one when it cannot any more, after its work.
func TestLease_ModuleIsWhereItRuns(t *testing.T) {
	t.Parallel()
	s := slowLeases(t).store
	runs := map[string][]string{}
	all := map[string]*Leases{}
	for _, name := range []string{"a", "b", "c"} {
		var err error
		all[name], err = s.Leases(t.Context(), name, func() []string { return runs[name] })
		require.NoError(t, err)
	}
	rounds := func() (owners []string) {
		for _, name := range []string{"a", "b", "c", "a", "b", "c"} {
			different, said := all[name].round(t.Context())
			require.True(t, said)
			if different {
				settled := make(chan struct{})
				close(settled)
				all[name].leave(settled)
			}
		}
		for _, name := range []string{"a", "b", "c"} {
			if all[name].Owns("module/m") {
				owners = append(owners, name)
			}
		}
		return owners
	}
	require.Empty(t, rounds())
	runs["b"] = []string{"m"}
	require.Equal(t, []string{"b"}, rounds())
	runs["b"], runs["c"] = nil, []string{"m"}
	require.Equal(t, []string{"c"}, rounds())
	runs["c"] = nil
	require.Empty(t, rounds())
}

// A lease that ran out and was acquired again is a change, though the same replica has it: its engine may have dropped a
// part of the work meanwhile.
func TestLease_BreakIsAChange(t *testing.T) {
	t.Parallel()
	l := slowLeases(t)
	round := func() bool {
		different, said := l.round(t.Context())
		require.True(t, said)
		return different
	}
	require.True(t, round())
	then, still := l.Holding()
	holds := func() []bool {
		require.Equal(t, l.Owns("s1"), l.OwnsShard(ShardOf("s1")))
		return []bool{l.Owns("s1"), then("s1"), still("s1")}
	}
	require.False(t, round())
	require.Equal(t, []bool{true, true, true}, holds())

	until := func(moment time.Time) {
		l.mu.Lock()
		defer l.mu.Unlock()
		held := l.held[unitOf("s1")]
		held.until = moment
		l.held[unitOf("s1")] = held
	}
	until(time.Now().Add(-time.Second))
	require.Equal(t, []bool{false, true, false}, holds())
	require.Equal(t, shards-1, l.Held())
	require.Zero(t, l.held[unitOf("s1")].until, "a clock that is set back does not bring it back")
	require.True(t, round())
	require.Equal(t, []bool{true, true, false}, holds())
	_, still = l.Holding()
	require.True(t, still("s1"))

	until(time.Now().Add(-time.Second))
	away, leave := context.WithCancel(t.Context())
	leave()
	different, said := l.round(away)
	require.Equal(t, []bool{true, false}, []bool{different, said}, "it ended between two rounds, and is not renewed")
	require.True(t, round(), "acquired again")
	require.False(t, round())
}

// Issue 13, F13: a lease goes on in a bucket that was deleted and recreated, unless another replica held it there.
func TestLease_GoesOnInANewBucket(t *testing.T) {
	t.Parallel()
	l := slowLeases(t)
	s := l.store
	round := func(said bool) (different bool) {
		different, answered := l.round(t.Context())
		require.Equal(t, said, answered)
		return different
	}
	bucket := s.names.BucketStream(streams.Leases)
	require.True(t, round(true))
	require.NoError(t, s.js.DeleteStream(t.Context(), bucket))
	require.Empty(t, s.Missed())
	require.False(t, round(false))
	require.Len(t, s.Missed(), 1)
	require.NoError(t, s.Remake(t.Context(), bucket, 0))
	require.False(t, round(true))
	require.Equal(t, 100, owned(l))

	require.NoError(t, s.js.DeleteStream(t.Context(), bucket))
	require.NoError(t, s.Remake(t.Context(), bucket, 0))
	theirs, again, back := unitOf("s1"), unitOf("s2"), unitOf("s3")
	require.Len(t, map[string]bool{theirs: true, again: true, back: true}, 3)
	for _, unit := range []string{theirs, back} {
		_, err := l.kv.Create(t.Context(), unitKey(unit), []byte("two"), jetstream.KeyTTL(l.ttl))
		require.NoError(t, err)
	}
	require.NoError(t, l.kv.Purge(t.Context(), unitKey(back), jetstream.PurgeTTL(l.ttl)))
	before := l.owned()
	require.True(t, round(true))
	require.NotContains(t, l.owned(), back)
	require.True(t, round(true))
	after := l.owned()
	require.NotContains(t, after, theirs)
	require.Equal(t, before[again], after[again])
	require.Greater(t, after[back], before[back])
}
