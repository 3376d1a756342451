package delivery

import (
	"context"
	"time"
)

// dispatch starts the tasks that may start now, and sets the time of the next decision.
func (r *runner) dispatch(work context.Context, t *timers) {
	now := time.Now()
	p := r.decide(now)
	for _, one := range p.tasks {
		one.match = r.evaluator.match
		r.executor.start(order{work, r, one})
	}
	clear(p.tasks) // do not keep lanes alive
	for _, why := range p.waits {
		r.observe.Throttled(r.sub)
		r.ports.Announce.Throttled(r.sub, why)
	}
	if p.turned {
		r.tellBreaker(work)
	}
	if !p.wake.IsZero() {
		t.set(max(0, p.wake.Sub(now)))
	}
}
