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

// A filter that is dear to evaluate is not evaluated by the runner, which answers the log, nor by a worker, which holds
// one of the places for attempts: filter.Pool does it, and says when it is done. Until then the delivery is held in its
// lane, unacknowledged, and what is behind it waits; other lanes go on. A parked lane waits in the same way.

// maxExhausted is how many events one after another a filter may fail to be evaluated on because that costs too much;
// then its subscription is suspended. Each but the last is a dead letter.
const maxExhausted = 5

// errDoubtful says that it is not known yet whether an event is wanted.
var errDoubtful = errors.New("the filter is not evaluated yet")

// ruling is what a filter says of an event.
type ruling struct {
	match *filter.Matcher // the filter; nobody wants to hear of another one
	lane  *lane           // a parked one, whose head the event is; nil: it is a delivery
	seq   uint64
	ok    bool
	err   error
}

// rulings is where the pool leaves its answers: it does not wait for the runner.
type rulings struct {
	news chan struct{} // has an element if there are some

	mu  sync.Mutex
	all []ruling
}

func newRulings() *rulings { return &rulings{news: make(chan struct{}, 1)} }

func (r *rulings) put(one ruling) {
	r.mu.Lock()
	r.all = append(r.all, one)
	r.mu.Unlock()
	select {
	case r.news <- struct{}{}:
	default:
	}
}

func (r *rulings) take() (all []ruling) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all, r.all = r.all, nil
	return all
}

// unevaluated is the error of a delivery whose filter could not be evaluated.
type unevaluated struct{ says, cause error }

// Error returns what callers may see.
func (u unevaluated) Error() string { return u.says.Error() }

// Unwrap returns that with its code, and the cause.
func (u unevaluated) Unwrap() []error { return []error{u.says, u.cause} }

func unevaluatedFor(err error) error {
	return unevaluated{sluice.Errorf(sluice.Unprocessable, "filter: %v", err), err}
}

// doubt takes a delivery into its lane of which it is not known whether it is wanted, and asks.
func (r *runner) doubt(work context.Context, d *model.Delivery) {
	switch entered, ack := r.book.doubt(r.laneOf(d), d); {
	case ack:
		r.answer(d.Receipt.Ack())
	case entered:
		r.inquire(work, ruling{seq: d.Event.Seq}, &d.Event)
	}
}

// inquire has the filter evaluated as it is now.
func (r *runner) inquire(work context.Context, about ruling, ev *sluice.Event) {
	about.match = r.match
	r.ports.Filters.Ask(work, r.ports.payer(r.sub), about.match, ev, func(ok bool, err error) {
		about.ok, about.err = ok, err
		r.rulings.put(about)
	})
}

// take enters a result, and asks about the head of a parked lane that is in doubt.
func (r *runner) take(ctx, work context.Context, res result) error {
	err := r.enter(ctx, res)
	if err == nil && res.kind == resultDoubtful {
		r.inquire(work, ruling{lane: res.lane, seq: res.park.ahead[0].Seq}, &res.park.ahead[0])
	}
	return err
}

// heedRulings enters what the pool has answered.
func (r *runner) heedRulings() {
	for _, one := range r.rulings.take() {
		switch {
		case one.match != r.match: // it was asked anew, of the filter that took its place
		case one.lane != nil:
			r.book.ruled(&one)
		default:
			r.settleDoubt(&one)
		}
	}
}

// settleDoubt lets a delivery go on, or acknowledges it if it is not wanted.
func (r *runner) settleDoubt(one *ruling) {
	d := r.book.doubted(one.seq)
	if d == nil {
		return // it was acknowledged with its parked lane
	}
	wanted := r.judged(d, one.ok, one.err)
	r.book.decided(d, wanted)
	if !wanted {
		r.answer(d.Receipt.Ack())
		return
	}
	r.observe.Matched(r.sub)
}

// judged reports whether a delivery is taken into its lane, given what the filter says; its Err is set then.
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

// unwanted enters that the filter could be evaluated on an event, as an attempt does of one that is wanted. Those that the
// gate keeps back do not count either way: that a subscription is suspended, or is not, says nothing of them.
func (r *runner) unwanted(sub *sluice.Subscription, ev *sluice.Event) {
	if r.exhausted.Load() > 0 && r.exit.decide(sub, ev) == model.Pass {
		r.exhausted.Store(0)
	}
}

// reconsider asks again about everything that is in doubt, with the filter as it is now.
func (r *runner) reconsider(work context.Context) {
	r.exhausted.Store(0)
	for _, d := range r.book.inDoubt() {
		about := ruling{seq: d.Event.Seq}
		var known bool
		if about.ok, known, about.err = r.ports.Filters.Match(r.match, &d.Event); known {
			r.settleDoubt(&about)
		} else {
			r.inquire(work, about, &d.Event)
		}
	}
	r.book.reconsider()
}

// filtered returns what the filter says of the next event of a parked lane; errDoubtful if that is to be asked.
func (j job) filtered(p *park, ev *sluice.Event) (bool, error) {
	if one := p.ruling; one != nil && one.seq == ev.Seq && one.match == j.match {
		return one.ok, one.err
	}
	ok, known, err := j.r.ports.Filters.Match(j.match, ev)
	if !known {
		return false, errDoubtful
	}
	p.ruling = nil
	return ok, err
}

// exhausts reports whether a filter has cost too much once too often, on an event that the gate lets pass.
func (j job) exhausts(err error) bool {
	return filter.Exhausted(err) && j.r.exhausted.Add(1) >= maxExhausted
}

// suspend ends the deliveries of a subscription whose filter costs too much again and again. The event waits in the log.
func (j job) suspend(ctx context.Context, err error) error {
	reason := fmt.Sprintf("the filter exceeded its cost limit on %d consecutive events; simplify it, then resume the subscription (last: %v)", maxExhausted, err)
	return j.persist(ctx, func() error { return j.r.ports.Registry.Suspend(ctx, j.sub.ID, reason) })
}
