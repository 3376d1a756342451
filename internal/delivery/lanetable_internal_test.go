package delivery

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/delivery/breaker"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

func deliveryAt(seq uint64) *model.Delivery {
	return &model.Delivery{Event: sluice.Event{Seq: seq}}
}

func seqs(ds []*model.Delivery) []uint64 {
	var all []uint64
	for _, d := range ds {
		all = append(all, d.Event.Seq)
	}
	return all
}

func TestLaneTable_SendsOnlyTheHead(t *testing.T) { // S4-17
	t.Parallel()
	now := time.Now()
	b := newLaneTable(8)
	for seq := uint64(1); seq <= 3; seq++ {
		require.False(t, b.arrive("a", deliveryAt(seq)))
	}
	first, ok := b.next(now, breaker.All)
	require.True(t, ok)
	require.Equal(t, uint64(1), first.head.Event.Seq)
	_, ok = b.next(now, breaker.All)
	require.False(t, ok, "the lane is busy")
	require.Equal(t, uint64(1), b.settled(first.lane, 0)[0].Event.Seq)
	second, ok := b.next(now, breaker.All)
	require.True(t, ok)
	require.Equal(t, uint64(2), second.head.Event.Seq)
}

func TestLaneTable_LanesAreIndependent(t *testing.T) { // S4-18
	t.Parallel()
	b := newLaneTable(2)
	for i, key := range []string{"a", "b", "c"} {
		b.arrive(key, deliveryAt(uint64(i+1)))
	}
	_, ok := b.next(time.Now(), breaker.All)
	require.True(t, ok)
	_, ok = b.next(time.Now(), breaker.All)
	require.True(t, ok)
	_, ok = b.next(time.Now(), breaker.All)
	require.False(t, ok, "the window is full")
}

func TestLaneTable_ParkedLaneEndsAtItsLastAcknowledgement(t *testing.T) {
	t.Parallel()
	now := time.Now()
	b := newLaneTable(8)
	for seq := uint64(1); seq <= 3; seq++ {
		b.arrive("a", deliveryAt(seq))
	}
	head, _ := b.next(now, breaker.All)
	rec := model.ParkedEntry{Parked: sluice.Parked{Lane: "a", FromSeq: 1, Attempts: 1, NextAt: now.Add(time.Hour)}}
	require.Equal(t, []uint64{1, 2, 3}, seqs(b.stored(head.lane, rec, now)))
	require.Empty(t, b.held)
	require.True(t, b.arrive("a", deliveryAt(9)), "the record holds it already")
	_, ok := b.next(now, breaker.All)
	require.False(t, ok, "it is not due")
	require.Equal(t, now.Add(time.Hour), b.wake())

	due, ok := b.next(now.Add(time.Hour), breaker.All)
	require.True(t, ok)
	require.Equal(t, taskResume, due.kind)
	require.Equal(t, uint64(9), due.park.upTo)
	due.park.moveTo(10)
	b.resumed(due.lane, due.park)
	gone, ok := b.next(now.Add(time.Hour), breaker.All)
	require.True(t, ok)
	require.Equal(t, taskUnpark, gone.kind)
	require.False(t, b.arrive("a", deliveryAt(11)), "its record is being deleted: it waits")
	require.True(t, b.arrive("a", deliveryAt(9)), "it was sent already")
	b.unparked(gone.lane)
	live, ok := b.next(now, breaker.All)
	require.True(t, ok)
	require.Equal(t, taskSend, live.kind)
	require.Equal(t, uint64(11), live.head.Event.Seq)
}

func TestLaneTable_ReadsBackEventsArrivingMeanwhile(t *testing.T) {
	t.Parallel()
	now := time.Now()
	b := newLaneTable(8)
	b.load(model.ParkedEntry{Parked: sluice.Parked{Lane: "a", FromSeq: 5, Attempts: 1}}, 7, now)
	due, ok := b.next(now, breaker.All)
	require.True(t, ok)
	require.Equal(t, uint64(7), due.park.upTo)
	require.True(t, b.arrive("a", deliveryAt(12)))
	due.park.moveTo(8)
	b.resumed(due.lane, due.park)
	again, ok := b.next(now, breaker.All)
	require.True(t, ok)
	require.Equal(t, taskResume, again.kind, "12 was acknowledged unsent")
}

func TestLaneTable_SetsAsideAFullLaneAfterItsPatience(t *testing.T) {
	t.Parallel()
	now := time.Now()
	b := newLaneTable(4)
	for seq := uint64(1); seq <= 4; seq++ {
		b.arrive("a", deliveryAt(seq))
	}
	b.patience = time.Second
	quick, ok := b.next(now, breaker.All)
	require.True(t, ok)
	require.Equal(t, taskSend, quick.kind)
	b.settled(quick.lane, 0)
	b.arrive("a", deliveryAt(5))
	now = now.Add(time.Second)
	spill, ok := b.next(now, breaker.All)
	require.True(t, ok)
	require.Equal(t, taskSpill, spill.kind)
	acks := b.stored(spill.lane, model.ParkedEntry{Parked: sluice.Parked{Lane: "a", FromSeq: 2, NextAt: now}}, now)
	require.Equal(t, []uint64{2, 3, 4, 5}, seqs(acks))
	resume, ok := b.next(now, breaker.All)
	require.True(t, ok)
	require.Equal(t, taskResume, resume.kind)
	require.Equal(t, uint64(5), resume.park.upTo)
}

func TestLaneTable_IgnoresRepeatedDeliveries(t *testing.T) {
	t.Parallel()
	b := newLaneTable(4)
	require.False(t, b.arrive("a", deliveryAt(1)))
	require.False(t, b.arrive("a", deliveryAt(1)))
	head, _ := b.next(time.Now(), breaker.All)
	b.settled(head.lane, 0)
	require.Empty(t, b.lanes)
}

func heldEntry(seq uint64) model.ParkedEntry {
	return model.ParkedEntry{Parked: sluice.Parked{
		Lane: "a", FromSeq: seq, EventID: "e", Held: sluice.FilterError, HeldAt: time.Now(),
	}}
}

func TestLaneTable_HeldLaneIsNeverDue(t *testing.T) { // issue 3, item 1
	t.Parallel()
	now := time.Now()
	b := newLaneTable(8)
	for seq := uint64(1); seq <= 3; seq++ {
		b.arrive("a", deliveryAt(seq))
	}
	head, _ := b.next(now, breaker.All)
	require.Equal(t, []uint64{1, 2, 3}, seqs(b.stored(head.lane, heldEntry(1), now)))
	require.Equal(t, 1, b.heldLanes)
	_, ok := b.next(now.Add(1000*time.Hour), breaker.All)
	require.False(t, ok)
	require.Zero(t, b.wake())
	require.True(t, b.arrive("a", deliveryAt(4)), "it waits behind the head")
	b.arrive("b", deliveryAt(5))
	other, ok := b.next(now, breaker.All)
	require.True(t, ok)
	require.Equal(t, uint64(5), other.head.Event.Seq, "others go on")
}

// An act needs no pass: it makes no request. Of two the second finds what the first made of the lane.
func TestLaneTable_HeldLaneContinuesAfterAnAct(t *testing.T) { // issue 3, item 1
	t.Parallel()
	now := time.Now()
	for _, kind := range []sluice.ReplayKind{sluice.ReplayRetry, sluice.ReplayDiscard} {
		b := newLaneTable(8)
		b.load(heldEntry(7), 0, now)
		other, first, second := newAct(kind, 8), newAct(kind, 7), newAct(kind, 7)
		b.act(other, now)
		require.Equal(t, actedNothing, <-other.done)
		b.act(first, now)
		b.act(second, now)
		require.Empty(t, first.done, "it is not stored yet")
		work, ok := b.next(now, breaker.None)
		require.True(t, ok)
		require.Equal(t, map[sluice.ReplayKind]taskKind{sluice.ReplayRetry: taskRelease, sluice.ReplayDiscard: taskDiscard}[kind], work.kind)
		require.Equal(t, uint64(7), work.park.upTo, "the head was acknowledged")
		_, ok = b.next(now, breaker.All)
		require.False(t, ok)

		stored, want := work.park, actedDone
		if kind == sluice.ReplayDiscard {
			want = actedNothing
			stored.moveTo(8)
		} else {
			stored.Held, stored.Attempts = "", 0
		}
		b.acted(work.lane, stored, now)
		require.Equal(t, []acted{actedDone, want}, []acted{<-first.done, <-second.done})
		require.Zero(t, b.heldLanes)
		next, ok := b.next(now, breaker.All)
		require.True(t, ok)
		require.Equal(t, map[sluice.ReplayKind]taskKind{sluice.ReplayRetry: taskResume, sluice.ReplayDiscard: taskUnpark}[kind], next.kind)
	}
}

func TestLaneTable_UnheldLaneIsHastenedNotDiscarded(t *testing.T) {
	t.Parallel()
	now := time.Now()
	b := newLaneTable(8)
	b.load(model.ParkedEntry{Parked: sluice.Parked{Lane: "a", FromSeq: 7, EventID: "e", Attempts: 1, NextAt: now.Add(time.Hour)}}, 0, now)
	discard, hasten := newAct(sluice.ReplayDiscard, 7), newAct(sluice.ReplayRetry, 7)
	b.act(discard, now)
	require.Equal(t, actedNothing, <-discard.done)
	_, ok := b.next(now, breaker.All)
	require.False(t, ok)
	b.act(hasten, now)
	require.Equal(t, actedDone, <-hasten.done)
	due, ok := b.next(now, breaker.All)
	require.True(t, ok)
	require.Equal(t, taskResume, due.kind)
}

func TestLaneTable_AnswersImpossibleActs(t *testing.T) {
	t.Parallel()
	b := newLaneTable(8)
	b.load(heldEntry(7), 0, time.Now())
	a := newAct(sluice.ReplayRetry, 7)
	b.act(a, time.Now())
	b.abandon()
	require.Equal(t, actedLater, <-a.done)
}

// A parked lane for which an event arrives before its record is deleted goes on at once.
func TestBook_LaneGoesOnInsteadOfItsEnd(t *testing.T) {
	t.Parallel()
	b, now := newLaneTable(1), time.Unix(1, 0)
	b.arrive("a", deliveryAt(1))
	send, ok := b.next(now, breaker.All)
	require.True(t, ok)
	b.stored(send.lane, model.ParkedEntry{Parked: sluice.Parked{Lane: "a", FromSeq: 1, NextAt: now}}, now)
	resume, ok := b.next(now, breaker.All)
	require.True(t, ok)
	require.Equal(t, taskResume, resume.kind)
	resume.park.moveTo(2)
	b.resumed(resume.lane, resume.park)
	require.True(t, b.arrive("a", deliveryAt(2)), "the record covers it")
	require.True(t, b.canSend(now, breaker.All))
	goesOn, ok := b.next(now, breaker.All)
	require.True(t, ok)
	require.Equal(t, taskResume, goesOn.kind)
	require.Equal(t, uint64(2), goesOn.park.FromSeq)
}
