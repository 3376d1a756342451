package delivery

import (
	"context"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// arrive puts a delivery from the source into its lane, or acknowledges it if there is nothing to
// do for it. If the filter is expensive, arrive leaves the decision to doubt.
func (r *runner) arrive(work context.Context, d *model.Delivery) {
	r.active = true
	if r.isSettled(d) || d.Event.Path != "" && !r.takes(r.sub, &d.Event) {
		r.answer(d.Receipt.Ack())
		return
	}
	if d.Err == nil {
		ok, known, err := r.ports.Filters.Match(r.match, &d.Event)
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
	if r.lanes.arrive(r.laneOf(d), d) {
		r.answer(d.Receipt.Ack())
	}
}

// takes reports whether an event is on one of the subscription's paths and belongs to its replay.
func (r *runner) takes(sub *sluice.Subscription, ev *sluice.Event) bool {
	return sub.Pattern.Match(ev.Path) && (r.only == nil || r.only(ev))
}

// reach is the range of sequences that the record of a parked lane covers.
type reach struct{ from, to uint64 }

// isSettled reports whether the delivery needs nothing more: it was settled by this runner or
// before a restart, or its lane was parked before the restart and will be read back.
func (r *runner) isSettled(d *model.Delivery) bool {
	return r.progressOf(&d.Event).Settled || d.Redelivered && r.recent.has(d.Event.Seq) || r.covers(d)
}

// covers reports whether the record of a lane that was parked at the start covers the delivery.
func (r *runner) covers(d *model.Delivery) bool {
	if len(r.covered) == 0 {
		return false
	}
	of := r.covered[r.laneOf(d)]
	return of.from <= d.Event.Seq && d.Event.Seq <= of.to
}

// progressOf returns the event's progress before a restart. It compares the event's id, because a
// log that lost its latest events in a power cut reuses their sequences.
func (r *runner) progressOf(ev *sluice.Event) model.Progress {
	if p := r.recovered[ev.Seq]; p.EventID == ev.ID {
		return p
	}
	return model.Progress{}
}

func (r *runner) laneOf(d *model.Delivery) string {
	if d.Err != nil && d.Event.Path == "" {
		return streams.LaneKey(r.lanesOf, sluice.OrderNone, "", d.Event.Seq)
	}
	return streams.LaneKey(r.lanesOf, r.sub.Policy.Ordering, d.Event.Path, d.Event.Seq)
}
