package delivery

import (
	"context"
	"sync/atomic"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// mailbox has what other goroutines ask of a runner.
type mailbox struct {
	changed chan *sluice.Subscription // updates from the engine; the last one wins
	acts    chan *act
	unsaved chan struct{} // receives a value if the store has lost the records of parked lanes
	proving atomic.Bool   // a success outside the deliveries is being entered
}

func newMailbox() mailbox {
	return mailbox{changed: make(chan *sluice.Subscription, 1), acts: make(chan *act), unsaved: make(chan struct{}, 1)}
}

// change replaces the subscription's settings; the last call wins.
func (m *mailbox) change(sub *sluice.Subscription) {
	select {
	case <-m.changed:
	default:
	}
	m.changed <- sub
}

// latest returns settings that arrived and were not taken yet, or the given ones.
func (m *mailbox) latest(sub *sluice.Subscription) *sluice.Subscription {
	select {
	case sub = <-m.changed:
	default:
	}
	return sub
}

// act applies an operator's decision to the head of a parked lane. If the lane is held, the change
// is stored before act returns actedDone.
func (m *mailbox) act(ctx context.Context, kind sluice.ReplayKind, seq uint64) acted {
	a := newAct(kind, seq)
	limit, cancel := context.WithTimeout(ctx, actLimit)
	defer cancel()
	select {
	case m.acts <- a:
	case <-limit.Done():
		return actedLater
	}
	select {
	case how := <-a.done:
		return a.settled(ctx, how)
	case <-ctx.Done():
		return actedLater
	}
}

// saveSoon makes the runner store its parked lanes again.
func (m *mailbox) saveSoon() {
	select {
	case m.unsaved <- struct{}{}:
	default: // a request is pending
	}
}
