package delivery

import (
	"context"
	"time"
)

// dispatch starts the tasks that may start now, and sets the timer to the next decision.
func (r *runner) dispatch(work context.Context, wake *time.Timer) {
	now := time.Now()
	p := r.decide(now)
	for _, t := range p.tasks {
		t.match = r.match
		r.busy.Add(1)
		r.workers.give(order{work, r, t})
	}
	clear(p.tasks) // lanes end
	for _, why := range p.waits {
		r.observe.Throttled(r.sub)
		r.ports.Announce.Throttled(r.sub, why)
	}
	if p.turned {
		r.tellBreaker(work)
	}
	if !p.wake.IsZero() {
		wake.Reset(max(0, p.wake.Sub(now)))
	}
}
