package fanout_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/fanout"
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
