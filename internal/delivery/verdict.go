package delivery

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/sluice-io/sluice/internal/filter"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Expensive filters are evaluated by filter.Pool, which reports the result later. The runner must
// not evaluate them, because it has to answer the log, nor must a worker, because it holds a permit
// for attempts. Until the result is known, the delivery stays in its lane, unacknowledged.
// Deliveries behind it wait; other lanes continue. A parked lane waits in the same way.

// maxExhausted is the number of consecutive events on which a filter may exceed its cost limit
// before its subscription is suspended. Each of these events but the last is a dead letter.
const maxExhausted = 5

// errDoubtful says that the filter has not been evaluated on an event yet.
var errDoubtful = errors.New("the filter is not evaluated yet")

// verdict is the result of the filter on an event.
type verdict struct {
	match *filter.Matcher // the filter; a verdict of an earlier one is ignored
	lane  *lane           // the parked lane whose head is the event; nil: the event is a queued delivery
	seq   uint64
	ok    bool
	err   error
}

// verdicts queues the verdicts of the pool, so that the pool does not wait for the runner.
type verdicts struct {
	news chan struct{} // receives a value when there are verdicts

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

// evaluator evaluates the filter of a subscription on its events.
type evaluator struct {
	pool      *filter.Pool
	match     *filter.Matcher // the current filter; only the runner's goroutine uses it
	verdicts  *verdicts
	exhausted atomic.Int32 // consecutive events on which the filter exceeded its cost limit
}

// of returns the verdict of the current filter on an event. known is false if the pool has to
// evaluate it.
func (e *evaluator) of(ev *sluice.Event) (ok, known bool, err error) {
	return e.pool.Match(e.match, ev)
}

// ask has the pool evaluate the current filter on an event, and queues the verdict.
func (e *evaluator) ask(work context.Context, payer filter.Payer, about verdict, ev *sluice.Event) {
	about.match = e.match
	e.pool.Ask(work, payer, about.match, ev, func(ok bool, err error) {
		about.ok, about.err = ok, err
		e.verdicts.put(about)
	})
}

// exhausts counts an event on which the filter exceeded its cost limit, and reports whether that
// has happened too often. The caller calls it only for events that the gate lets pass.
func (e *evaluator) exhausts(err error) bool {
	return filter.Exhausted(err) && e.exhausted.Add(1) >= maxExhausted
}

// affordable ends the count of events on which the filter was too expensive.
func (e *evaluator) affordable() { e.exhausted.Store(0) }

// cheap reports whether the filter did not exceed its cost limit on the last event.
func (e *evaluator) cheap() bool { return e.exhausted.Load() == 0 }

// unevaluated is the error of a delivery on which the filter failed.
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
		case changed := <-r.mailbox.changed:
			cancel()
			<-done
			sub = changed
		}
	}
	match, err = r.ports.Filters.CompileNow(sub.Filter, r.ports.Labels)
	return sub, match, err
}

// doubt puts a delivery into its lane, and starts to evaluate the filter on it.
func (r *runner) doubt(work context.Context, d *model.Delivery) {
	switch entered, ack := r.lanes.doubt(r.scope.laneOf(r.sub, d), d); {
	case ack:
		r.answer(d.Receipt.Ack())
	case entered:
		r.evaluator.ask(work, r.ports.payer(r.sub), verdict{seq: d.Event.Seq}, &d.Event)
	}
}

// take enters a result. If the verdict on the head of a parked lane is missing, it starts to
// evaluate the filter on it.
func (r *runner) take(ctx, work context.Context, res *result) error {
	err := r.settle(ctx, res)
	if err == nil && res.kind == resultDoubtful {
		r.evaluator.ask(work, r.ports.payer(r.sub), verdict{lane: res.lane, seq: res.park.ahead[0].Seq}, &res.park.ahead[0].Event)
	}
	return err
}

// applyVerdicts applies the verdicts of the pool.
func (r *runner) applyVerdicts() {
	for _, one := range r.evaluator.verdicts.take() {
		switch {
		case one.match != r.evaluator.match: // reconsider has asked the new filter
		case one.lane != nil:
			r.lanes.ruled(&one)
		default:
			r.settleVerdict(&one)
		}
	}
}

// settleVerdict lets a delivery proceed in its lane, or acknowledges it if it is not wanted.
func (r *runner) settleVerdict(one *verdict) {
	d := r.lanes.doubted(one.seq)
	if d == nil {
		return // its lane was parked meanwhile
	}
	wanted := r.judged(d, one.ok, one.err)
	r.lanes.decided(d, wanted)
	if !wanted {
		r.answer(d.Receipt.Ack())
		return
	}
	r.observe.Matched(r.sub)
}

// judged reports whether a delivery belongs into its lane, given the filter's verdict. It sets the
// delivery's Err if the event cannot be sent.
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

// unwanted resets the count of events on which the filter was too expensive, after an evaluation
// that did not match. After a match, an attempt does that. Events that the gate keeps back do not
// count either way, because they must not influence whether the subscription is suspended.
func (r *runner) unwanted(sub *sluice.Subscription, ev *sluice.Event) {
	if !r.evaluator.cheap() && r.egress.outbound.decide(sub, ev) == model.Pass {
		r.evaluator.affordable()
	}
}

// reconsider evaluates the current filter on every delivery in doubt.
func (r *runner) reconsider(work context.Context) {
	r.evaluator.affordable()
	for _, d := range r.lanes.undecided() {
		about := verdict{seq: d.Event.Seq}
		var known bool
		if about.ok, known, about.err = r.evaluator.of(&d.Event); known {
			r.settleVerdict(&about)
		} else {
			r.evaluator.ask(work, r.ports.payer(r.sub), about, &d.Event)
		}
	}
	r.lanes.reconsider()
}

// filtered returns the filter's verdict on the next event of a parked lane. It returns errDoubtful
// if the pool has to evaluate the filter first.
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

// suspend suspends a subscription whose filter repeatedly exceeds its cost limit. The event stays
// in the log for later.
func (j job) suspend(ctx context.Context, err error) error {
	reason := fmt.Sprintf("the filter exceeded its cost limit on %d consecutive events; simplify it, then resume the subscription (last: %v)", maxExhausted, err)
	return j.persist(ctx, func() error { return j.r.ports.Registry.SuspendCostly(ctx, j.sub, reason) })
}
