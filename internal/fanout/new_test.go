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

// A subscription that this process has just created begins at its start, also ahead of the reader. Nothing is
// asked about it, and its runner need not look for what an earlier process left.
func TestNew_BeginsWithoutAsking(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := over(t, newMemory())
		w.join(sub("a", "/none", 1), sub("b", "/none", 1)) // of both shards
		w.publish(times(5)...)
		<-time.After(aLittle)
		behind, ahead := sub("c", "/x", 4), sub("d", "/x", 8)
		for _, one := range []*sluice.Subscription{behind, ahead} {
			before := one.From.Seq - 1
			w.created[one.ID] = fanout.Stored{Known: true, New: true, Position: fanout.Position{Shared: true, Floors: []uint64{before, before}}}
		}
		asked := w.asked
		w.join(behind, ahead)
		require.Equal(t, asked, w.asked)
		require.True(t, w.open(ahead).Clean())
		require.Equal(t, "4 5 ", settleAll(t, w.open(behind)))
		w.publish(times(4)...)
		require.Equal(t, "8 9 ", settleAll(t, w.open(ahead)))
		require.Equal(t, "6 7 8 9 ", settleAll(t, w.open(behind)))
	})
}

// The first one of a namespace asks for the end of the log.
func TestNew_FirstOneKnowsTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.publish(times(5)...)
		m.cursors[1] = fanout.Cursor{Seq: 3, Revision: 1}
		m.created["a"] = fanout.Stored{Known: true, New: true, Position: fanout.Position{Shared: true, Floors: []uint64{5, 5}}}
		w := over(t, m)
		a := sub("a", "/x", 6)
		w.join(a)
		w.publish("/x")
		require.Equal(t, "6 ", settleAll(t, w.open(a)))
		<-time.After(aLittle)
		require.EqualValues(t, 6, w.cursor(1))
		require.Zero(t, w.reads)
	})
}

// What earlier processes did with the deliveries behind the cursor is known to the first source, unless there may be
// records of parked lanes, too.
func TestPast_IsOfTheFirstSource(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.publish(times(5)...)
		m.cursors[1] = fanout.Cursor{Seq: 3, Revision: 1}
		past := fanout.Past{3: {EventID: "3"}, 4: {EventID: "4", Settled: true}, 5: {EventID: "5", Attempts: 1}}
		m.past, m.busy = map[string]fanout.Past{"a": past, "c": past}, map[string]bool{"c": true}
		for _, id := range []string{"a", "c", "e"} {
			m.positions[id] = fanout.Position{Shared: true, Attached: true, Floors: []uint64{1, 1}}
		}
		w := over(t, m)
		a, busy, unknown := sub("a", "/x", 1), sub("c", "/x", 1), sub("e", "/x", 1)
		w.join(a, busy, unknown)
		first := w.open(a)
		require.False(t, first.Clean())
		progress, known := first.Past()
		require.True(t, known)
		require.Equal(t, map[uint64]model.Progress{4: past[4], 5: past[5]}, progress)
		for _, later := range []*fanout.Source{w.open(a), w.open(busy), w.open(unknown)} {
			_, known = later.Past()
			require.False(t, known)
		}
	})
}

// A subscription that has joined again while its runner finished its attempts may have records that are later than its
// past: its next runner reads them.
func TestPast_IsNotKnownAfterALateEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.publish(times(5)...)
		m.cursors[1] = fanout.Cursor{Seq: 3, Revision: 1}
		m.past = map[string]fanout.Past{"a": {4: {EventID: "4", Settled: true}}}
		m.positions["a"] = fanout.Position{Shared: true, Attached: true, Floors: []uint64{1, 1}}
		w := over(t, m)
		a := sub("a", "/x", 1)
		w.join(a)
		src := w.open(a)
		w.seats["a"].Drop()
		w.join(a)
		woken := w.wokenUp()["a"]
		src.Close()
		require.Equal(t, woken+1, w.wokenUp()["a"])
		next := w.open(a)
		_, known := next.Past()
		require.False(t, known)
		require.False(t, next.Clean())
	})
}

// A subscription that has joined may be served from then on, until it is known to have consumers of its own.
func TestServes_FromJoiningOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := over(t, newMemory())
		a, own := sub("a", "/x", 1), sub("b", "/x", 1)
		w.shares = func(s *sluice.Subscription, _ fanout.Stored) bool { return s.ID == "a" }
		require.False(t, w.router.Serves(a))
		w.router.Join(a, func() {})
		w.router.Join(own, func() {})
		require.True(t, w.router.Serves(a))
		require.True(t, w.router.Serves(own))
		w.join(a, own)
		require.True(t, w.router.Serves(a))
		require.False(t, w.router.Serves(own))
	})
}
