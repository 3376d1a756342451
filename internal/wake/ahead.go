package wake

import (
	"context"
	"time"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// aheadFor is the maximum age of tails that were looked up ahead when a notice uses them.
const aheadFor = 100 * time.Millisecond

// ahead is the state of a consumer's streams, looked up while the record of its wake is being
// stored, so that the notice need not wait for the lookup.
type ahead struct {
	at    time.Time
	done  chan struct{}
	tails Tails
	err   error
}

// lookAhead starts to look up the tails for a notice. The user of the result still has to ask the
// gate. For a consumer that follows only its own stream it looks up only the end. That suffices: a
// message was just stored there, and a request to delete the stream removes its consumers before it
// is answered. If that removal was interrupted, the next step sees it.
func (r *runner) lookAhead(ctx context.Context, sub *sluice.Subscription, primary sluice.Path, paths []sluice.Path) *ahead {
	a := &ahead{at: r.engine.opts.Now(), done: make(chan struct{})}
	r.work.Go(func() {
		defer close(a.done)
		if len(paths) > 1 || !unbounded(sub) {
			a.tails, a.err = r.engine.tails(ctx, sub, primary, paths)
			return
		}
		last, err := r.engine.ports.Streams.Last(ctx, sub.Namespace, primary)
		a.tails, a.err = Tails{primary: {Seq: last}}, err
	})
	return a
}

// tails returns the tails of a consumer's streams: those looked up ahead if they are recent and the
// gate lets them all pass, otherwise fresh ones.
func (r *runner) tails(ctx context.Context, sub *sluice.Subscription, c *Consumer, a *ahead) (Tails, error) {
	if a != nil && r.engine.opts.Now().Sub(a.at) < aheadFor {
		<-a.done
		if a.err == nil && r.passes(sub, a.tails) {
			return a.tails, nil
		}
	}
	return r.engine.tails(ctx, sub, c.Path, c.Paths())
}

func (r *runner) passes(sub *sluice.Subscription, tails Tails) bool {
	for path, tail := range tails {
		if r.engine.decide(sub, path, tail.Seq) != model.Pass {
			return false
		}
	}
	return true
}
