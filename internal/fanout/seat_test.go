package fanout_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/fanout"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// A subscription that joins again goes on with its new settings, and is woken if it has something to do and no runner.
func TestJoin_AgainGoesOn(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		t := w.t
		a := sub("a", "/x", 5)
		w.join(a)
		require.Equal(t, 1, w.wokenUp()["a"])
		w.join(a)
		require.Equal(t, 2, w.wokenUp()["a"], "its event waits")
		src := w.open(a)
		wider := *a
		wider.Policy.Window = 9
		w.join(&wider)
		require.Equal(t, 2, w.wokenUp()["a"], "it has a runner")
		require.Equal(t, "5 ", settleAll(t, src))
		w.publish(times(8)...)
		require.Equal(t, "6 7 8 9 ", seqs(got(src)), "the room of the source")
		w.seats["a"].Leave()
		w.seats["a"].Leave()
		<-time.After(aLittle)
		w.join(sub("a", "/x", 5))
		require.Equal(t, "6 7 8 9 10 11 12 13 ", settleAll(t, w.open(a)))
		require.True(t, w.open(a).Rest())
		before := w.wokenUp()["a"]
		w.join(sub("a", "/x", 5))
		require.Equal(t, before, w.wokenUp()["a"], "it has nothing to do")
	})
}

// A subscription that was deleted and created again begins anew; its earlier seat and source do nothing.
func TestJoin_AnotherOfTheSameIDBeginsAnew(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		t := w.t
		a := sub("a", "/x", 4)
		w.join(a)
		old, seat := w.open(a), w.seats["a"]
		again := sub("a", "/x", 5)
		again.CreatedAt = a.CreatedAt.Add(time.Hour)
		w.join(again)
		<-old.Ended()
		seat.Leave()
		require.Equal(t, "5 ", settleAll(t, w.open(again)))
		_, served := w.router.Standing(a)
		require.False(t, served)
		standing, served := w.router.Standing(again)
		require.True(t, served)
		require.Equal(t, fanout.Standing{Floor: 5, Handed: 5}, standing)
		require.Equal(t, fanout.Load{Members: 1}, w.router.Load())
	})
}

// S4: how a subscription stands is known of those that are placed here.
func TestStanding_OfServedSubscriptions(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		t := w.t
		w.shares = func(s *sluice.Subscription, _ fanout.Stored) bool { return s.ID != "c" }
		a, own, ahead := sub("a", "/x", 3), sub("c", "/x", 1), sub("e", "/x", 10)
		a.Policy.Window = 1
		w.created["e"] = fanout.Stored{Known: true, New: true, Position: fanout.Position{Shared: true, Floors: []uint64{9}}}
		w.router.Join(a, func() {})
		for _, s := range []*sluice.Subscription{a, own} {
			_, served := w.router.Standing(s)
			require.False(t, served)
		}
		w.join(a, own, ahead)
		_, served := w.router.Standing(own)
		require.False(t, served)
		standing, _ := w.router.Standing(ahead)
		require.Equal(t, fanout.Standing{Floor: 9, Handed: 9}, standing)
		standing, _ = w.router.Standing(a)
		require.Equal(t, fanout.Standing{Floor: 2, Handed: 2}, standing)
		src := w.open(a)
		require.EqualValues(t, 5, src.Seen("/x"))
		held := got(src)
		standing, _ = w.router.Standing(a)
		require.Equal(t, fanout.Standing{Floor: 2, Handed: 3, Open: 1}, standing)
		settle(t, held...)
		require.Equal(t, "4 5 ", settleAll(t, src))
		w.publish("/none")
		synctest.Wait()
		standing, _ = w.router.Standing(a)
		require.Equal(t, fanout.Standing{Floor: 6, Handed: 6}, standing)
	})
}

// A source that is closed wakes its subscription; one that another took the place of does nothing.
func TestSource_ClosingWakes(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		t := w.t
		a := sub("a", "/x", 5)
		w.join(a)
		first := w.open(a)
		second := w.open(a)
		<-first.Ended()
		first.Close()
		require.False(t, first.Rest())
		require.Equal(t, 1, w.wokenUp()["a"])
		require.Len(t, got(second), 1)
		second.Close()
		<-second.Ended()
		require.Equal(t, 2, w.wokenUp()["a"])
		third := w.open(a)
		require.True(t, got(third)[0].Redelivered)
		w.seats["a"].Leave()
		<-third.Ended()
		third.Close()
		require.Equal(t, 2, w.wokenUp()["a"], "it is served elsewhere")
	})
}

// S4-25: lost events are told until that is done.
func TestSource_TellsOfLostEventsAgain(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		t := w.t
		w.expire(4)
		w.positions["a"] = fanout.Position{Shared: true, Floors: []uint64{1}, Open: fanout.Waits{Seq: 2}}
		a := sub("a", "/none", 1)
		w.join(a)
		src := w.open(a)
		require.False(t, src.Rest())
		failed := errors.New("not stored")
		require.ErrorIs(t, src.Look(t.Context(), nil, func(uint64, uint64) error { return failed }), failed)
		require.False(t, src.Rest())
		var told []uint64
		tell := func(from, to uint64) error {
			told = append(told, from, to)
			return nil
		}
		require.NoError(t, src.Look(t.Context(), nil, tell))
		require.NoError(t, src.Look(t.Context(), nil, tell))
		require.Equal(t, []uint64{2, 3}, told)
		require.True(t, src.Rest())
	})
}

// A subscription that ends gives back all that it held.
func TestForget_GivesBackItsRoom(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		t := w.t
		w.attachedAt("a", 3)
		a := sub("a", "/x", 1)
		w.join(a)
		held := got(w.open(a))
		settle(t, held[0])
		settle(t, held[0])
		require.Equal(t, fanout.Load{Queued: 1, Weight: 512, Busy: 1, Members: 1}, w.router.Load())
		w.seats["a"].Forget()
		synctest.Wait()
		require.Equal(t, fanout.Load{}, w.router.Load())
		settle(t, held...)
		require.Equal(t, fanout.Load{}, w.router.Load())
		<-time.After(aLittle)
		require.Zero(t, w.count("PutPosition"))
	})
}

// Of a subscription with a position of its own nothing is counted, and all that is in progress when it is attached.
func TestLoad_CountsAttachedSubscriptions(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		t := w.t
		a, c := sub("a", "/x", 6), sub("c", "/x", 6)
		stored := make(chan struct{})
		w.on("PutPosition", func() error {
			<-stored
			return nil
		})
		w.join(a, c)
		<-time.After(aLittle)
		w.publish(times(2)...)
		held := got(w.open(a))
		require.Equal(t, fanout.Load{Busy: 2, Holds: 2, Members: 2}, w.router.Load())
		settle(t, held[1])
		w.on("PutPosition", nil)
		close(stored)
		<-time.After(aLittle)
		require.Equal(t, fanout.Load{Queued: 3, Weight: 2 * 512, Busy: 2, Members: 2}, w.router.Load())
		settle(t, held[0])
		require.Equal(t, fanout.Load{Queued: 2, Weight: 2 * 512, Busy: 1, Members: 2}, w.router.Load())
		<-time.After(10 * time.Second)
		require.Equal(t, fanout.Load{Busy: 1, Members: 2}, w.router.Load(), "the slow one is detached")
	})
}
