package fanout_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/fanout"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// A subscription that leaves unplaced keeps a position of its own, and one that is attached gets one, also if the
// store fails at first.
func TestLeave_UnplacedStoresOnlyADetachedPosition(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		stored fanout.Position
		writes int
	}{
		"attached":        {fanout.Position{Shared: true, Attached: true, Floors: []uint64{3}}, 1},
		"detached":        {fanout.Position{Shared: true, Floors: []uint64{3}}, 0},
		"with consumers":  {fanout.Position{Floors: []uint64{3}}, 0},
		"behind a cursor": {fanout.Position{Shared: true, Floors: []uint64{2}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, func(w *world) {
				t := w.t
				w.positions["a"] = c.stored
				w.on("Stored", failing(1, sluice.Unavailable))
				w.router.Join(sub("a", "/x", 1), func() {}).Leave()
				<-time.After(aLittle)
				c.stored.Attached = false
				require.Equal(t, c.stored, w.position())
				require.Equal(t, c.writes, w.count("PutPosition"))
			})
		})
	}
}

// Nothing is handed to a subscription that leaves while its position is stored, nor to its runner afterwards.
func TestLeave_EndsDeliveries(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		t := w.t
		a, other := sub("a", "/x", 6), sub("c", "/none", 6)
		w.join(a, other)
		<-time.After(aLittle)
		src := w.open(a)
		stored := make(chan struct{})
		w.on("PutPosition", func() error {
			<-stored
			return nil
		})
		w.seats["a"].Leave()
		synctest.Wait()
		w.publish("/x")
		require.Empty(t, got(src))
		w.on("PutPosition", nil)
		close(stored)
		<-time.After(aLittle)
		<-src.Ended()
		src.Close()
		w.publish("/x")
		<-time.After(aLittle)
		require.Empty(t, w.wokenUp())
		require.Equal(t, []uint64{5}, w.position().Floors)
		require.EqualValues(t, 7, w.cursor(1), "its shard goes on without it")
		require.Equal(t, 1, w.count("Follow"))
		w.join(a)
		require.Equal(t, "6 7 ", settleAll(t, w.open(a)))
	})
}

// A subscription whose position was not stored before the end goes on from its shard's cursor, which stays.
func TestLeave_UnstoredHoldsTheCursor(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		t := w.t
		a, c := sub("a", "/x", 6), sub("c", "/x", 6)
		w.join(a, c)
		<-time.After(aLittle)
		w.publish(times(2)...)
		settleAll(t, w.open(c))
		w.on("PutPosition", failing(1<<40, sluice.Unavailable))
		w.seats["a"].Leave()
		synctest.Wait()
		w.stop()
		w.on("PutPosition", nil)
		again := over(t, w.memory)
		again.join(a)
		require.Equal(t, "6 7 ", settleAll(t, again.open(a)))
	})
}

// A position that was stored although the store said otherwise is as good as the one before.
func TestSave_UncertainPositionLosesNothing(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		t := w.t
		a, c := sub("a", "/x", 6), sub("c", "/x", 6)
		w.on("PutPosition", func() error {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.positions["a"] = fanout.Position{Shared: true, Attached: true, Floors: []uint64{5}}
			return sluice.Errorf(sluice.Unavailable, "timeout")
		})
		w.join(a)
		<-time.After(aLittle)
		w.on("PutPosition", failing(1<<40, sluice.Unavailable))
		w.join(c)
		w.publish(times(2)...)
		require.Len(t, got(w.open(a)), 2)
		require.Equal(t, "6 7 ", settleAll(t, w.open(c)))
		<-time.After(aLittle)
		w.stop() // or it would store it now
		w.on("PutPosition", nil)
		again := over(t, w.memory)
		again.join(a)
		require.Equal(t, "6 7 ", settleAll(t, again.open(a)))
	})
}

// A replica that has lost a shard, and does not know it yet, stores nothing of it: the next owner goes on from what it
// stored itself (S0-63).
func TestOwns_LostShardStoresNothing(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*world, []*model.Delivery){
		"at the end":      func(w *world, _ []*model.Delivery) { w.stop() },
		"a slow receiver": func(*world, []*model.Delivery) { <-time.After(20 * time.Second) },
		"a fast receiver": func(w *world, all []*model.Delivery) { settle(w.t, all...); <-time.After(aLittle) },
		"leaving":         func(w *world, _ []*model.Delivery) { w.seats["a"].Leave(); <-time.After(aLittle) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, func(w *world) {
				t := w.t
				w.attachedAt("a", 5)
				a, c := sub("a", "/x", 6), sub("c", "/x", 6)
				w.join(a, c)
				w.publish(times(2)...)
				all := got(w.open(a))
				require.Equal(t, "6 7 ", seqs(all))
				<-time.After(aLittle)
				w.lost.Store(true)
				stored, at := w.position(), w.whole(1)
				writes := w.count("PutPosition") + w.count("PutCursor")
				require.Equal(t, "6 7 ", settleAll(t, w.open(c)))
				end(w, all)
				require.Equal(t, writes, w.count("PutPosition")+w.count("PutCursor"))
				require.Equal(t, stored, w.position())
				require.Equal(t, at, w.whole(1))
			})
		})
	}
}

// A subscription that leaves while its shard is lost stays attached, so that the shard's cursor must not pass its events
// if this replica acquires the shard again.
func TestOwns_LeavingHoldsTheCursor(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		t := w.t
		w.attachedAt("a", 5)
		a, c := sub("a", "/x", 6), sub("c", "/x", 6)
		w.join(a, c)
		w.publish(times(2)...)
		require.Equal(t, "6 7 ", settleAll(t, w.open(c)))
		w.lost.Store(true)
		w.seats["a"].Leave()
		<-time.After(aLittle)
		w.lost.Store(false)
		<-time.After(aLittle)
		require.EqualValues(t, 5, w.cursor(1))
		w.join(a)
		require.Equal(t, "6 7 ", settleAll(t, w.open(a)))
	})
}
