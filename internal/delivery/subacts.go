package delivery

import (
	"container/heap"
	"context"
	"time"

	"github.com/sluice-io/sluice/internal/delivery/breaker"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// apply applies an operator's decision, and reports whether the breaker's state changed.
func (d *dispatcher) apply(a *act, now time.Time) (turned bool) {
	switch a.kind {
	case sluice.ReplayProbe:
		a.done <- d.probe(now)
	case sluice.ReplayLanes:
		d.probe(now)
		a.more = d.lanes.retryAll(now)
		a.done <- actedDone
	case sluice.ReplayProved:
		d.failing = breaker.Failing{}
		turned = d.turn(d.breaker.Proved(d.sub.Policy.Window, now))
		a.done <- actedDone
	case sluice.ReplayRetry, sluice.ReplayDiscard, sluice.ReplayRange, sluice.ReplayDeadLetters:
		d.lanes.act(a, now)
	}
	return turned
}

// takeAct applies an operator's decision, and announces a change of the breaker.
func (r *runner) takeAct(work context.Context, a *act) {
	if r.apply(a, time.Now()) {
		r.tellBreaker(work)
	}
}

// probe makes the next probe due now. If nothing is waiting to be sent, it also makes a parked lane
// due.
func (d *dispatcher) probe(now time.Time) acted {
	if d.breaker.State() != sluice.BreakerOpen {
		return actedNothing
	}
	d.breaker = d.breaker.Hasten(now)
	if !d.lanes.waits(now) {
		d.lanes.hasten(1, now)
	}
	return actedDone
}

// hasten makes up to n parked lanes due now, in the order of their times.
func (b *laneTable) hasten(n int, now time.Time) {
	for ; n > 0 && len(b.due) > 0; n-- {
		l := b.due[0]
		heap.Remove(&b.due, 0)
		if l.park.NextAt.After(now) {
			l.park.NextAt = now
		}
		b.makeReady(l)
	}
}

// retryAll makes every parked lane due now, and queues the release of those that are held. It
// returns the acts of these releases.
func (b *laneTable) retryAll(now time.Time) (more []*act) {
	for _, l := range b.lanes {
		if l.park != nil && l.park.Held != "" {
			a := newAct(sluice.ReplayRetry, l.park.FromSeq)
			l.acts = append(l.acts, a)
			b.enqueue(l)
			more = append(more, a)
		}
	}
	b.hasten(len(b.due), now)
	return more
}

// settled waits for the acts that this one caused, and returns how. It returns actedLater if the
// runner ends before they are done.
func (a *act) settled(ctx context.Context, how acted) acted {
	for _, one := range a.more {
		select {
		case is := <-one.done:
			if is == actedLater {
				return actedLater
			}
		case <-ctx.Done():
			return actedLater
		}
	}
	return how
}

// proved tells the runner of the live deliveries that a request of a replay succeeded, unless all is
// well there. A subscription in trouble has a runner.
func (e *Engine) proved(ctx context.Context, subscription string) {
	live := e.liveRunner(subscription)
	if live == nil {
		return
	}
	if g := live.board.read(); g.Breaker != sluice.BreakerOpen && !g.Failing || !live.mailbox.proving.CompareAndSwap(false, true) {
		return
	}
	e.serving.Go(func() {
		defer live.mailbox.proving.Store(false)
		live.mailbox.act(ctx, sluice.ReplayProved, 0)
	})
}
