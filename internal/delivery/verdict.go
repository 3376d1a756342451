package delivery

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/sluice-io/sluice/internal/filter"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// An expensive filter is evaluated neither by the runner, which answers the log, nor by a worker,
// which holds a permit for attempts: filter.Pool evaluates it and reports the result. Until then
// the delivery is held in its lane, unacknowledged. Deliveries behind it wait; other lanes go on. A
// parked lane waits in the same way.

// maxExhausted is the number of consecutive events on which a filter may exceed its cost limit
// before its subscription is suspended. Each of these events but the last is a dead letter.
const maxExhausted = 5

// errDoubtful says that the filter has not been evaluated on an event yet.
var errDoubtful = errors.New("the filter is not evaluated yet")

// verdict is the filter's answer on an event.
type verdict struct {
	match *filter.Matcher // the filter; an answer of an earlier one is ignored
	lane  *lane           // a parked lane with the event as its head; nil: it is a delivery
	seq   uint64
	ok    bool
	err   error
}

// verdicts receives the pool's answers, which do not wait for the runner.
type verdicts struct {
	news chan struct{} // has an element if there are some

	mu  sync.Mutex
	all []verdict
}

func newVerdicts() *verdicts { return &verdicts{news: make(chan struct{}, 1)} }

func (r *verdicts) put(one verdict) {
	r.mu.Lock()
	r.all = append(r.all, one)
	r.mu.Unlock()
	select {
	case r.news <- struct{}{}:
	default:
	}
}

func (r *verdicts) take() (all []verdict) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all, r.all = r.all, nil
	return all
}

// unevaluated is the error of a delivery whose filter evaluation failed.
type unevaluated struct{ says, cause error }

// Error returns the message for callers.
func (u unevaluated) Error() string { return u.says.Error() }

// Unwrap returns the error with its code, and the cause.
func (u unevaluated) Unwrap() []error { return []error{u.says, u.cause} }

func unevaluatedFor(err error) error {
	return unevaluated{sluice.Errorf(sluice.Unprocessable, "filter: %v", err), err}
}

// compiled waits until the subscription's filter is compiled. If its settings change meanwhile, it
// returns the new ones.
func (r *runner) compiled(ctx context.Context, sub *sluice.Subscription) (_ *sluice.Subscription, match *filter.Matcher, err error) {
	for !r.ports.Filters.Compiled(sub.Filter) {
		waiting, cancel := context.WithCancel(ctx)
		done := make(chan struct{})
		go func() {
			defer close(done)
			match, err = r.ports.Filters.Compile(waiting, r.ports.payer(sub), sub.Filter, r.ports.Labels)
		}()
		select {
		case <-done:
			cancel()
			return sub, match, err
		case changed := <-r.changed:
			cancel()
			<-done
			sub = changed
		}
	}
	match, err = r.ports.Filters.CompileNow(sub.Filter, r.ports.Labels)
	return sub, match, err
}

// doubt takes a delivery into its lane and starts the filter evaluation.
func (r *runner) doubt(work context.Context, d *model.Delivery) {
	switch entered, ack := r.lanes.doubt(r.laneOf(d), d); {
	case ack:
		r.answer(d.Receipt.Ack())
	case entered:
		r.inquire(work, verdict{seq: d.Event.Seq}, &d.Event)
	}
}

// inquire starts the evaluation of the current filter.
func (r *runner) inquire(work context.Context, about verdict, ev *sluice.Event) {
	about.match = r.match
	r.ports.Filters.Ask(work, r.ports.payer(r.sub), about.match, ev, func(ok bool, err error) {
		about.ok, about.err = ok, err
		r.verdicts.put(about)
	})
}

// take enters a result, and starts the evaluation for the head of a parked lane in doubt.
func (r *runner) take(ctx, work context.Context, res *result) error {
	err := r.settle(ctx, res)
	if err == nil && res.kind == resultDoubtful {
		r.inquire(work, verdict{lane: res.lane, seq: res.park.ahead[0].Seq}, &res.park.ahead[0])
	}
	return err
}

// applyVerdicts enters the pool's answers.
func (r *runner) applyVerdicts() {
	for _, one := range r.verdicts.take() {
		switch {
		case one.match != r.match: // the filter that replaced it was asked
		case one.lane != nil:
			r.lanes.ruled(&one)
		default:
			r.settleVerdict(&one)
		}
	}
}

// settleVerdict releases a delivery, or acknowledges it if it is not wanted.
func (r *runner) settleVerdict(one *verdict) {
	d := r.lanes.doubted(one.seq)
	if d == nil {
		return // it was acknowledged with its parked lane
	}
	wanted := r.judged(d, one.ok, one.err)
	r.lanes.decided(d, wanted)
	if !wanted {
		r.answer(d.Receipt.Ack())
		return
	}
	r.observe.Matched(r.sub)
}

// judged reports whether a delivery joins its lane, given the filter's answer; it sets the
// delivery's Err.
func (r *runner) judged(d *model.Delivery, ok bool, err error) bool { //nolint:revive // ok is a result on its way
	if err != nil {
		d.Err = unevaluatedFor(err)
		return true
	}
	if !ok {
		r.unwanted(r.sub, &d.Event)
		return false
	}
	d.Err = r.ports.allowed(&d.Event)
	return true
}

// unwanted resets the count of failed evaluations after a successful one without a match, as an
// attempt does after a match. Events that the gate keeps back do not count either way: they must
// not influence whether a subscription is suspended.
func (r *runner) unwanted(sub *sluice.Subscription, ev *sluice.Event) {
	if r.exhausted.Load() > 0 && r.outbound.decide(sub, ev) == model.Pass {
		r.exhausted.Store(0)
	}
}

// reconsider evaluates the current filter on every delivery in doubt.
func (r *runner) reconsider(work context.Context) {
	r.exhausted.Store(0)
	for _, d := range r.lanes.undecided() {
		about := verdict{seq: d.Event.Seq}
		var known bool
		if about.ok, known, about.err = r.ports.Filters.Match(r.match, &d.Event); known {
			r.settleVerdict(&about)
		} else {
			r.inquire(work, about, &d.Event)
		}
	}
	r.lanes.reconsider()
}

// filtered returns the filter's answer on the next event of a parked lane; errDoubtful if it has to
// be evaluated first.
func (j job) filtered(p *park, ev *sluice.Event) (bool, error) {
	if one := p.verdict; one != nil && one.seq == ev.Seq && one.match == j.match {
		return one.ok, one.err
	}
	ok, known, err := j.r.ports.Filters.Match(j.match, ev)
	if !known {
		return false, errDoubtful
	}
	p.verdict = nil
	return ok, err
}

// exhausts reports whether a filter has exceeded its cost limit too often, on an event that the
// gate lets pass.
func (j job) exhausts(err error) bool {
	return filter.Exhausted(err) && j.r.exhausted.Add(1) >= maxExhausted
}

// suspend ends the deliveries of a subscription whose filter repeatedly exceeds its cost limit. The
// event waits in the log.
func (j job) suspend(ctx context.Context, err error) error {
	reason := fmt.Sprintf("the filter exceeded its cost limit on %d consecutive events; simplify it, then resume the subscription (last: %v)", maxExhausted, err)
	return j.persist(ctx, func() error { return j.r.ports.Registry.Suspend(ctx, j.sub.ID, reason) })
}
