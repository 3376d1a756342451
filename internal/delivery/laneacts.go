package delivery

import (
	"container/heap"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// act is an operator's decision on the head of a parked lane.
type act struct {
	kind sluice.ReplayKind // ReplayRetry or ReplayDiscard; or, for the whole subscription, ReplayProbe, ReplayProved or ReplayLanes
	seq  uint64            // sequence of the head
	done chan acted        // has room for one
	more []*act            // further acts that this one caused; set before done receives
}

func newAct(kind sluice.ReplayKind, seq uint64) *act {
	return &act{kind: kind, seq: seq, done: make(chan acted, 1)}
}

// acted is the outcome of an act.
type acted int

const (
	actedLater   acted = iota // unknown, because the runner ended
	actedNothing              // there is no such head to act on
	actedDone                 // done, and stored if the lane was held
)

// act applies an operator's decision to a lane's head. For a held lane it queues the act, which is
// answered after a write. A lane that only waits for its retry becomes due now; its head cannot be
// discarded.
func (b *laneTable) act(a *act, now time.Time) {
	l := b.headedBy(a.seq)
	switch {
	case l == nil || l.park.Held == "" && a.kind == sluice.ReplayDiscard:
		a.done <- actedNothing
	case l.park.Held != "":
		l.acts = append(l.acts, a)
		b.enqueue(l)
	default:
		b.undefer(l.park)
		if l.park.index >= 0 && l.park.NextAt.After(now) {
			l.park.NextAt = now
			heap.Fix(&b.due, l.park.index)
		}
		a.done <- actedDone
	}
}

// headedBy returns the parked lane whose head has the sequence, or nil.
func (b *laneTable) headedBy(seq uint64) *lane {
	for _, l := range b.lanes {
		if l.park != nil && l.park.FromSeq == seq && l.park.EventID != "" {
			return l
		}
	}
	return nil
}

// enqueueHeld queues a held lane if there is an operator's decision on it.
func (b *laneTable) enqueueHeld(l *lane) {
	if len(l.acts) > 0 {
		l.queued = true
		b.acts = append(b.acts, l)
	}
}

// nextAct returns the task for the first held lane with a decision. There must be one.
func (b *laneTable) nextAct() task {
	l := b.acts[0]
	b.acts[0] = nil
	b.acts = b.acts[1:]
	l.queued = false
	b.engage(l)
	kind := taskRelease
	if l.acts[0].kind == sluice.ReplayDiscard {
		kind = taskDiscard
	}
	return task{kind: kind, lane: l, park: *l.park}
}

// acted records that the first act on a lane is stored. Acts that arrived meanwhile apply to the
// lane's new state.
func (b *laneTable) acted(l *lane, p park, now time.Time) {
	acts := l.acts
	l.acts = nil
	b.resumed(l, p)
	acts[0].done <- actedDone
	for _, a := range acts[1:] {
		b.act(a, now)
	}
}

// abandon answers all pending acts with actedLater, because none will be executed any more.
func (b *laneTable) abandon() {
	for _, l := range b.lanes {
		for _, a := range l.acts {
			a.done <- actedLater
		}
		l.acts = nil
	}
}

// count maintains the number of held lanes.
func (b *laneTable) count(held sluice.Reason, by int) {
	if held != "" {
		b.heldLanes += by
	}
}
