package fanout_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/fanout"
)

// attachedAt stores that a subscription was attached by an earlier process whose shard's cursor is a sequence.
func (m *memory) attachedAt(id string, seq uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.positions[id] = fanout.Position{Shared: true, Attached: true, Floors: []uint64{0}}
	m.cursors[m.Shard(id)] = fanout.Cursor{Seq: seq, Revision: 1}
}

// A reader that goes back for a subscription loses nothing of it, also while it asks about messages that are
// missing from the log.
func TestRouter_GoesBackWhileItAsksAboutAGap(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.publish(times(5)...)
		w := over(t, m)
		w.join(sub("a", "/none", 1))
		m.publish(times(5)...)
		m.attachedAt("b", 3)
		asking, answer := make(chan struct{}), make(chan struct{})
		m.on("Bounds", func() error {
			m.on("Bounds", nil)
			close(asking)
			<-answer
			return nil
		})
		m.remove(11)
		m.publish("/y")
		<-asking
		late := sub("b", "/x", 1)
		before := w.count("Next")
		w.join(late)
		close(answer)
		require.Equal(t, "4 5 6 7 8 9 10 ", settleAll(t, w.open(late)))
		require.Equal(t, before, w.count("Next"), "from the shared reader")
	})
}

// A subscription is not told again of messages that the reader routed before it went back for another one and
// that have left the log since.
func TestRouter_GoingBackLosesNothingOfOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := over(t, newMemory())
		a := sub("a", "/y", 1)
		w.join(a)
		w.publish("/y")
		src := w.open(a)
		settleAll(t, src)
		w.publish(times(9)...)
		<-time.After(2 * aLittle)
		w.expire(8)
		w.attachedAt("b", 3)
		w.join(sub("b", "/x", 1))
		require.NoError(t, src.Look(t.Context(), nil, func(from, to uint64) error {
			t.Errorf("%d to %d are lost", from, to)
			return nil
		}))
		<-time.After(aLittle)
		standing, _ := w.router.Standing(a)
		require.Equal(t, fanout.Standing{Floor: 10, Handed: 10}, standing)
	})
}

// What is acknowledged after its source was closed does not come again, and the next source can rest.
func TestSource_RestsAfterALateAcknowledgement(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := over(t, newMemory())
		a := sub("a", "/x", 1)
		w.join(a)
		w.publish("/x", "/x")
		first := w.open(a)
		late := got(first)
		first.Close()
		settle(t, late[0])
		second := w.open(a)
		again := got(second)
		require.Equal(t, "2 ", seqs(again))
		require.True(t, again[0].Redelivered)
		second.Close()
		settle(t, late[1])
		third := w.open(a)
		require.Empty(t, got(third))
		require.True(t, third.Rest())
	})
}

// What is acknowledged after it was given up to be read again is counted once.
func TestStanding_CountsALateAcknowledgementOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := over(t, newMemory())
		a := sub("a", "/x", 1)
		a.Policy.Window = 1
		w.join(a)
		w.publish("/x")
		src := w.open(a)
		late := got(src)
		src.Close()
		w.publish(times(3)...)
		synctest.Wait()
		settle(t, late...)
		standing, served := w.router.Standing(a)
		require.True(t, served)
		require.Equal(t, fanout.Standing{}, standing)
		require.Equal(t, "1 2 3 4 ", settleAll(t, w.open(a)))
	})
}
