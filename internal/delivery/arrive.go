package delivery

import (
	"context"

	"github.com/sluice-io/sluice/internal/model"
)

// arrive puts a delivery from the source into its lane, or acknowledges it if there is nothing to
// do for it. If the filter is expensive, arrive leaves the decision to doubt.
func (r *runner) arrive(work context.Context, d *model.Delivery) {
	r.intake.active = true
	if r.isSettled(d) || d.Event.Path != "" && !r.scope.takes(r.sub, &d.Event) {
		r.answer(d.Receipt.Ack())
		return
	}
	if d.Err == nil {
		ok, known, err := r.evaluator.of(&d.Event)
		if !known {
			r.doubt(work, d)
			return
		}
		if !r.judged(d, ok, err) {
			r.answer(d.Receipt.Ack())
			return
		}
	}
	r.observe.Matched(r.sub)
	if r.lanes.arrive(r.scope.laneOf(r.sub, d), d) {
		r.answer(d.Receipt.Ack())
	}
}

// isSettled reports whether the delivery needs nothing more: it was settled by this runner or
// before a restart, or its lane was parked before the restart and will be read back.
func (r *runner) isSettled(d *model.Delivery) bool {
	return r.past.settled(d) || len(r.past.covered) > 0 && r.past.covers(r.scope.laneOf(r.sub, d), d.Event.Seq)
}
