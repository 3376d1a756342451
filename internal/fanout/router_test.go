package fanout_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sluice-io/sluice/internal/fanout"
	"github.com/sluice-io/sluice/pkg/sluice"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const aLittle = 1500 * time.Millisecond // what moved is stored by then

// times returns the path /x several times.
func times(n int) []sluice.Path { return slices.Repeat([]sluice.Path{"/x"}, n) }

// An event wakes the subscriptions that it matches, and none of them reads the log by itself.
func TestRouter_WakesMatchingSubscriptionsOnly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := over(t, newMemory())
		a, b := sub("a", "/a/**", 1), sub("b", "/b/*", 1)
		w.join(a, b)
		require.Empty(t, w.wokenUp())
		w.publish("/a/x", "/c", "/a")
		synctest.Wait()
		require.Equal(t, map[string]int{"a": 1}, w.wokenUp())
		src := w.open(a)
		require.True(t, src.Clean(), "nothing was delivered before")
		require.Equal(t, "1 3 ", settleAll(t, src))
		require.True(t, src.Rest())
		w.publish("/b/x")
		synctest.Wait()
		require.Equal(t, map[string]int{"a": 1, "b": 1}, w.wokenUp())
		require.Zero(t, w.reads)
		w.publish("/a/y")
		synctest.Wait()
		require.Equal(t, 2, w.wokenUp()["a"], "it rested")
	})
}

// A source with deliveries in progress cannot be left.
func TestSource_RestsWhenAllIsAcknowledged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := over(t, newMemory())
		a := sub("a", "/a", 1)
		w.join(a)
		w.publish("/a")
		src := w.open(a)
		all := got(src)
		require.False(t, src.Rest())
		settle(t, all...)
		settle(t, all...) // again
		require.True(t, src.Rest())
		<-src.Ended()
	})
}

// A shard's cursor stays below what is in progress for any of its subscriptions.
func TestRouter_CursorWaitsForTheSlowest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := over(t, newMemory())
		a, c := sub("a", "/**", 1), sub("c", "/x", 1) // of one shard
		w.join(a, c)
		<-time.After(aLittle)
		require.True(t, w.position().Attached)
		w.publish("/y", "/x", "/y")
		fast, slow := w.open(a), w.open(c)
		require.Equal(t, "1 2 3 ", settleAll(t, fast))
		held := got(slow)
		require.Equal(t, "2 ", seqs(held))
		<-time.After(aLittle)
		require.EqualValues(t, 1, w.cursor(1))
		settle(t, held...)
		<-time.After(aLittle)
		require.EqualValues(t, 3, w.cursor(1))
	})
}

// A subscription that is slow is detached, and the cursor goes on; when it is quick again it is attached.
func TestRouter_SlowSubscriptionIsDetached(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := over(t, newMemory())
		a := sub("a", "/**", 1)
		w.join(a)
		<-time.After(aLittle)
		w.publish(times(3)...)
		src := w.open(a)
		held := got(src)
		settle(t, held[1:]...)
		<-time.After(7 * time.Second)
		p := w.position()
		require.False(t, p.Attached)
		require.Equal(t, []uint64{0}, p.Floors)
		require.EqualValues(t, 1, p.Open.Seq)
		require.EqualValues(t, 3, w.cursor(1), "the others do not wait for it")
		settle(t, held[0])
		<-time.After(2 * aLittle)
		p = w.position()
		require.True(t, p.Attached)
		require.Equal(t, []uint64{3}, p.Floors)
	})
}

// What does not fit a subscription's queue is read later, once and in order.
func TestRouter_CatchesUpAfterFallingBehind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := over(t, newMemory())
		a, b := sub("a", "/x/**", 1), sub("c", "/**", 1)
		w.join(a, b)
		<-time.After(aLittle)
		src, other := w.open(a), w.open(b)
		var want []uint64
		for i := range uint64(300) {
			w.publish("/x", "/x/y", "/z")
			require.NotEmpty(t, settleAll(t, other), "it is not held up")
			want = append(want, 3*i+1, 3*i+2)
		}
		<-time.After(aLittle)
		require.False(t, w.position().Attached)
		require.EqualValues(t, 900, w.cursor(1))
		require.Equal(t, text(want), settleAll(t, src))
		<-time.After(2 * aLittle)
		require.True(t, w.position().Attached)
		w.publish("/x")
		require.Equal(t, "901 ", settleAll(t, src))
	})
}

// After a crash all that was not acknowledged comes again, in order, and little else.
func TestRouter_CrashBringsBackOpenDeliveries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		w := over(t, m)
		a, c := sub("a", "/**", 1), sub("c", "/x", 1)
		w.join(a, c)
		<-time.After(aLittle)
		w.publish("/x", "/y", "/x", "/y")
		src := w.open(a)
		all := got(src)
		settle(t, all[0], all[2])
		settleAll(t, w.open(c))
		<-time.After(aLittle)
		m.mu.Lock()
		m.full = true // nothing that the process does from now on counts
		m.mu.Unlock()
		settle(t, all...)
		w.stop()
		m.full = false

		w = over(t, m)
		w.join(a, c)
		src = w.open(a)
		require.False(t, src.Clean(), "there may be attempts")
		require.Equal(t, "2 3 4 ", settleAll(t, src))
		require.Equal(t, "3 ", settleAll(t, w.open(c)), "the cursor is theirs together")
	})
}

// A process that ends stores what is open, so that the next one begins there.
func TestRouter_EndStoresOpenDeliveries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		w := over(t, m)
		a, c := sub("a", "/**", 1), sub("c", "/x", 1)
		w.join(a, c)
		<-time.After(aLittle)
		w.publish("/x", "/x", "/y")
		settle(t, got(w.open(a))[0])
		settleAll(t, w.open(c))
		w.stop()
		require.Equal(t, fanout.Waits{Seq: 2}, w.position().Open)
		w = over(t, m)
		w.join(a, c)
		require.Equal(t, map[string]int{"a": 1}, w.wokenUp())
		require.Equal(t, "2 3 ", settleAll(t, w.open(a)))
	})
}

// A new subscription begins where its start says, in what is stored or behind it.
func TestRouter_NewSubscriptionBeginsAtItsStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := over(t, newMemory())
		w.publish(times(10)...)
		all, some, none := sub("a", "/**", 1), sub("b", "/x", 8), sub("c", "/x", 11)
		w.join(all, some, none)
		require.Equal(t, map[string]int{"a": 1, "b": 1}, w.wokenUp())
		require.Equal(t, "1 2 3 4 5 6 7 8 9 10 ", settleAll(t, w.open(all)))
		require.Equal(t, "8 9 10 ", settleAll(t, w.open(some)))
		w.publish("/x")
		require.Equal(t, "11 ", settleAll(t, w.open(none)))
	})
}

// One that joins a little behind the reader reads nothing if nothing came for it.
func TestRouter_JoiningALittleLateReadsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := over(t, newMemory())
		w.join(sub("a", "/a", 1))
		w.publish(times(100)...)
		synctest.Wait()
		w.join(sub("b", "/b", 50))
		require.Zero(t, w.reads)
		w.join(sub("c", "/x", 90))
		require.NotZero(t, w.reads)
		require.Equal(t, map[string]int{"c": 1}, w.wokenUp())
	})
}

// A subscription that leaves goes on from there when it joins again, here or elsewhere.
func TestSeat_LeavingStoresThePosition(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := over(t, newMemory())
		a := sub("a", "/**", 1)
		w.join(a)
		<-time.After(aLittle)
		w.publish(times(3)...)
		all := got(w.open(a))
		settle(t, all[:2]...)
		w.seats["a"].Leave()
		synctest.Wait()
		require.Equal(t, []uint64{2}, w.position().Floors)
		require.False(t, w.position().Attached)
		w.publish("/x")
		w.join(a)
		require.Equal(t, "3 4 ", settleAll(t, w.open(a)))
	})
}

// A seat that was given up does nothing once the subscription has joined again.
func TestSeat_OldOneDoesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := over(t, newMemory())
		a := sub("a", "/**", 1)
		w.join(a)
		old := w.seats["a"]
		w.join(a)
		old.Leave()
		w.publish("/x")
		require.Equal(t, "1 ", settleAll(t, w.open(a)))
		w.seats["a"].Leave()
		w.join(a)
		old.Leave() // nor once it has left and come back
		w.publish("/x")
		require.Equal(t, "2 ", settleAll(t, w.open(a)))
	})
}

// A paused subscription that an earlier process left attached gets a position of its own before the
// cursor moves.
func TestSeat_LeavingUnplacedDetaches(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.publish(times(5)...)
		m.positions["a"] = fanout.Position{Shared: true, Attached: true, Floors: []uint64{1}}
		m.cursors[1] = fanout.Cursor{Seq: 3, Revision: 1}
		w := over(t, m)
		w.router.Join(sub("a", "/x", 1), func() {}).Leave()
		w.join(sub("c", "/x", 6))
		<-time.After(aLittle)
		require.Equal(t, fanout.Position{Shared: true, Floors: []uint64{3}}, w.position())
	})
}

// The cursor of a shard that another replica gets does not move, even if an acknowledgement comes late.
func TestSeat_DroppingFreezesTheCursor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := over(t, newMemory())
		a, b := sub("a", "/**", 1), sub("b", "/**", 1) // of two shards
		w.join(a, b)
		<-time.After(aLittle)
		w.publish("/x", "/x")
		all := got(w.open(a))
		settleAll(t, w.open(b))
		settle(t, all[0])
		<-time.After(aLittle)
		w.seats["a"].Drop()
		settle(t, all...)
		w.publish("/x")
		settleAll(t, w.open(b))
		<-time.After(aLittle)
		require.EqualValues(t, 1, w.cursor(1))
		require.EqualValues(t, 3, w.cursor(0))
		w.join(a)
		require.Equal(t, "2 3 ", settleAll(t, w.open(a)), "it comes back")
	})
}
