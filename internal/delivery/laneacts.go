package delivery

import (
	"container/heap"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// act is an operator's decision on the head of a parked lane.
type act struct {
	kind sluice.ReplayKind // ReplayRetry, ReplayDiscard; or of the whole subscription: ReplayProbe, ReplayProved, ReplayLanes
	seq  uint64            // of the head
	done chan acted        // has room for one
	more []*act            // decisions that follow from it; set before it is done
}

func newAct(kind sluice.ReplayKind, seq uint64) *act {
	return &act{kind: kind, seq: seq, done: make(chan acted, 1)}
}

// acted is the outcome of an act.
type acted int

const (
	actedLater   acted = iota // unknown: the runner ended
	actedNothing              // there is no such head
	actedDone                 // done, and stored if the lane was held
)

// act enters an operator's decision on a lane's head. It answers at once unless a write comes
// first. A lane that only waits for its retry becomes due now; its head cannot be discarded.
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

// enqueueHeld sets a held lane aside until an operator decides on it.
func (b *laneTable) enqueueHeld(l *lane) {
	if len(l.acts) > 0 {
		l.queued = true
		b.acts = append(b.acts, l)
	}
}

// nextAct returns the task for the first lane with a decision; there is one.
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

// acted enters that a lane's first act is stored. Acts that arrived meanwhile apply to the lane's
// new state.
func (b *laneTable) acted(l *lane, p park, now time.Time) {
	acts := l.acts
	l.acts = nil
	b.resumed(l, p)
	acts[0].done <- actedDone
	for _, a := range acts[1:] {
		b.act(a, now)
	}
}

// abandon answers all pending acts: none will be executed any more.
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
