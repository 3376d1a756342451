package delivery

import (
	"sync/atomic"
	"time"

	"github.com/sluice-io/sluice/internal/model"
)

// intake is the open source of a runner. It closes the source when nothing comes, if it can.
type intake struct {
	source  Source
	rests   Resting     // the source if it is Resting, else nil
	resting atomic.Bool // the runner is ending, or has ended, because it has no work
	active  bool        // something has come since the last check whether to rest
}

func (i *intake) open(source Source) {
	i.source = source
	i.rests, _ = source.(Resting)
}

// clean reports whether the source knows that the store has no records of earlier deliveries.
func (i *intake) clean() bool { return i.rests != nil && i.rests.Clean() }

// past returns the progress of earlier deliveries. known is false if the source does not have it.
func (i *intake) past() (progress map[uint64]model.Progress, known bool) {
	if i.rests == nil {
		return nil, false
	}
	return i.rests.Past()
}

// ended returns the error for a source that has ended.
func (i *intake) ended() error {
	if m, ok := i.source.(Moving); ok && m.Moved() {
		return errMoved
	}
	return errSourceEnded
}

// rest closes the source if the runner is idle and nothing has come since the last call, and reports
// whether the runner ends.
func (i *intake) rest(idle bool) bool { //nolint:revive // idle is a fact
	if i.active || !idle {
		i.active = false
		return false
	}
	i.resting.Store(true) // before Rest, because the next event may come at once
	if i.rests.Rest() {
		return true
	}
	i.resting.Store(false)
	return false
}

// beat extends the acknowledgement timeouts of the queued deliveries. With a Resting source it
// instead rests if the runner is idle, and reports whether the runner ends.
func (r *runner) beat(now time.Time) (rests bool) {
	if r.intake.rests != nil {
		return r.intake.rest(r.idle(now))
	}
	r.lanes.each(func(d *model.Delivery) { r.answer(d.Receipt.Hold()) })
	return false
}
