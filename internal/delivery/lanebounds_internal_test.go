package delivery

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/delivery/breaker"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

func parkedAt(lane string, seq uint64, next time.Time) model.ParkedEntry {
	return model.ParkedEntry{Parked: sluice.Parked{Lane: lane, FromSeq: seq, EventID: "e", Attempts: 1, NextAt: next}}
}

// A lane is set aside if the window is full, more than half of it is the lane's, and half of the workers are idle, for as long
// as the patience lasts.
func TestLaneTable_SetsAsideALaneThatFillsTheWindow(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	for name, c := range map[string]struct {
		patience           time.Duration
		held, queued, busy int
		want               bool
	}{
		"it hogs":           {time.Second, 4, 3, 2, true},
		"no patience":       {0, 4, 3, 2, false},
		"there is room":     {time.Second, 3, 3, 2, false},
		"half is others'":   {time.Second, 4, 2, 2, false},
		"workers have work": {time.Second, 4, 3, 3, false},
	} {
		b := newLaneTable(4)
		b.patience, b.busy = c.patience, c.busy
		l := &lane{}
		for seq := range uint64(c.queued) {
			l.queue = append(l.queue, deliveryAt(seq))
		}
		for seq := range uint64(c.held) {
			b.held[seq] = struct{}{}
		}
		require.False(t, b.monopolizes(l, now), name)
		require.False(t, b.monopolizes(l, now.Add(time.Second-1)), name)
		require.Equal(t, c.want, b.monopolizes(l, now.Add(time.Second)), name)
		b.busy = 4
		require.False(t, b.monopolizes(l, now.Add(time.Second)), name)
		b.busy = c.busy
		require.False(t, b.monopolizes(l, now.Add(time.Second)), "its time begins anew")
	}
}

func TestBook_ProbesWithoutSettingAside(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	b := newLaneTable(2)
	b.patience = time.Second
	b.arrive("a", deliveryAt(1))
	b.arrive("a", deliveryAt(2))
	b.lanes["a"].hogging = now.Add(-time.Hour)
	probe, ok := b.next(now, breaker.Probe)
	require.True(t, ok)
	require.Equal(t, taskSend, probe.kind)
}

// With more parked lanes than the window it may be long until a lane's next turn: its record is stored at once.
func TestBook_IsCarefulWithManyParkedLanes(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	for parked, want := range map[int]bool{1: false, 2: false, 3: true} {
		b := newLaneTable(2)
		for i := range parked {
			b.load(parkedAt(string(rune('a'+i)), uint64(i+1), now), 0, now)
		}
		due, ok := b.next(now, breaker.All)
		require.True(t, ok)
		require.Equal(t, want, due.careful, parked)
	}
}

func TestBook_WaitsForReadyOrDueLanes(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	b := newLaneTable(1)
	require.True(t, b.empty())
	require.False(t, b.waits(now))
	b.load(parkedAt("a", 1, now.Add(time.Second)), 0, now)
	require.False(t, b.empty())
	require.False(t, b.waits(now))
	require.True(t, b.waits(now.Add(time.Second)))
	require.False(t, b.canSend(now.Add(time.Second), breaker.None))
	require.Equal(t, now.Add(time.Second), b.wake(), "it stays due while nothing may be sent")
	b.arrive("b", deliveryAt(2))
	require.True(t, b.waits(now))
	sent, ok := b.next(now, breaker.All)
	require.True(t, ok)
	require.False(t, b.waits(now.Add(time.Second)), "the window is full")
	b.settled(sent.lane, 0)
	b.arrive("b", deliveryAt(2))
	require.True(t, b.waits(now), "what was settled may come again")

	busy := newLaneTable(1)
	busy.busy = 1
	require.False(t, busy.empty())
}

func TestBook_KnowsItsOldestEvent(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	b := newLaneTable(4)
	require.Zero(t, b.oldest())
	for i, key := range []string{"a", "b", "c"} {
		d := deliveryAt(uint64(i + 1))
		d.Event.Stored = now.Add(time.Duration(i) * time.Second)
		b.arrive(key, d)
		require.Equal(t, now, b.oldest())
	}
	b.load(parkedAt("untried", 9, now), 0, now)
	require.Equal(t, now, b.oldest(), "nothing failed there")
	failing := parkedAt("failing", 10, now)
	failing.FirstFailedAt = now.Add(-time.Minute)
	b.load(failing, 0, now)
	require.Equal(t, now.Add(-time.Minute), b.oldest())
	b.lanes["drained"] = &lane{busy: true}
	require.Equal(t, now.Add(-time.Minute), b.oldest())
	var held []uint64
	b.each(func(d *model.Delivery) { held = append(held, d.Event.Seq) })
	require.ElementsMatch(t, []uint64{1, 2, 3}, held)
}

// What is asked for by sequence is a head that was seen, and hastens it at most.
func TestBook_HastensTheHeadThatIsMeant(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	b := newLaneTable(8)
	ask := func(seq uint64, at time.Time) acted {
		a := newAct(sluice.ReplayRetry, seq)
		b.act(a, at)
		return <-a.done
	}
	b.arrive("live", deliveryAt(1))
	unseen := parkedAt("unseen", 2, now)
	unseen.EventID = ""
	b.load(unseen, 0, now)
	require.Equal(t, []acted{actedNothing, actedNothing}, []acted{ask(1, now), ask(2, now)})

	b = newLaneTable(8)
	for i, key := range []string{"a", "b", "c"} {
		b.load(parkedAt(key, uint64(i+1), now.Add(time.Duration(i)*time.Minute)), 0, now)
	}
	require.Equal(t, actedDone, ask(1, now.Add(time.Second)))
	require.Equal(t, now, b.lanes["a"].park.NextAt, "what is due already keeps its turn")
	require.Equal(t, actedDone, ask(3, now.Add(-time.Second)))
	require.Equal(t, now.Add(-time.Second), b.wake())
	first, ok := b.next(now, breaker.All)
	require.True(t, ok)
	require.Equal(t, "c", first.lane.key)
}

func TestBook_AbandonsAnActOnce(t *testing.T) {
	t.Parallel()
	b := newLaneTable(8)
	b.load(heldEntry(7), 0, time.Unix(1, 0))
	a := newAct(sluice.ReplayRetry, 7)
	b.act(a, time.Unix(1, 0))
	b.abandon()
	require.Equal(t, actedLater, <-a.done)
	b.abandon()
	require.Empty(t, a.done)
}

// A head in doubt that is parked is asked about again when it is read back.
func TestBook_ParkingEndsDoubts(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	b := newLaneTable(8)
	b.arrive("a", deliveryAt(1))
	head, ok := b.next(now, breaker.All)
	require.True(t, ok)
	b.doubt("a", deliveryAt(2))
	require.Len(t, b.undecided(), 1)
	b.stored(head.lane, parkedAt("a", 1, now), now)
	require.Empty(t, b.undecided())
	due, ok := b.next(now, breaker.All)
	require.True(t, ok)
	due.park.verdict = &verdict{}
	b.suspect(due.lane, due.park)
	require.Same(t, due.park.verdict, b.lanes["a"].park.verdict)
	_, ok = b.next(now.Add(time.Hour), breaker.All)
	require.False(t, ok, "its head is in doubt")
}
