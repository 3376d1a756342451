// Package explain explains the state of a subscription's deliveries, in particular why an event has
// not arrived. The information comes from several places: the log of events, the log of attempts,
// dead letters, records of parked lanes, and the position of the subscription's consumer. Why
// combines it, without I/O and without a clock; the rest of the package fetches it.
package explain

import (
	"cmp"
	"context"
	"time"

	"github.com/sluice-io/sluice/internal/filter"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// History is the record of deliveries.
type History interface {
	// Attempts returns a subscription's attempts, newest first, and the position of the next page;
	// 0 if there is none.
	Attempts(ctx context.Context, sub *sluice.Subscription, q model.HistoryQuery) ([]model.Placed[sluice.Attempt], uint64, error)
	// LetterHistory is Attempts for dead letters.
	LetterHistory(ctx context.Context, sub *sluice.Subscription, q model.HistoryQuery) ([]model.Placed[sluice.DeadLetter], uint64, error)
	// FirstAttemptAt returns the time of the first attempt in the log; zero if it has none.
	FirstAttemptAt(ctx context.Context, sub *sluice.Subscription) (time.Time, error)
	// ParkedLanes returns the waiting lanes.
	ParkedLanes(ctx context.Context, sub *sluice.Subscription) ([]sluice.Parked, error)
	// Forgotten returns those lanes with a head that has no attempts left in the log.
	Forgotten(ctx context.Context, sub *sluice.Subscription, lanes []sluice.Parked) ([]sluice.Parked, error)
	// Trail returns all records of one event. Code NotFound if there are none.
	Trail(ctx context.Context, sub *sluice.Subscription, event string) (model.Trail, error)
}

// Log has a namespace's events.
type Log interface {
	// Window returns events of the subscription's replay window. Codes NotFound; WindowExceeded.
	Window(ctx context.Context, sub *sluice.Subscription, q model.WindowQuery) (model.WindowPage, error)
	// Await returns when there is a wanted event after the sequence, or when ctx ends. The result
	// is the sequence up to which there is no wanted event.
	Await(ctx context.Context, sub *sluice.Subscription, after uint64, wanted func(*sluice.Event) bool) (uint64, error)
}

// Explainer answers questions about subscriptions' events.
type Explainer struct {
	history History
	log     Log
	labels  filter.Labels
	filters *filter.Pool
	payer   func(*sluice.Subscription) string
}

// Options are an explainer's optional dependencies.
type Options struct {
	Labels  filter.Labels // of event types; nil: there are none
	Filters *filter.Pool  // evaluates filters; nil: without limits

	// Payer returns the principal that pays for a subscription's filter; "" is the operator. nil:
	// the operator pays for all.
	Payer func(sub *sluice.Subscription) string
}

// New returns an explainer.
func New(history History, log Log, opts Options) *Explainer {
	if opts.Filters == nil {
		opts.Filters = filter.NewPool(filter.Rates{})
	}
	if opts.Payer == nil {
		opts.Payer = func(*sluice.Subscription) string { return "" }
	}
	return &Explainer{history: history, log: log, labels: opts.Labels, filters: opts.Filters, payer: opts.Payer}
}

// filterPatience limits how long an answer waits for a filter because its payer has exceeded its
// rate.
const filterPatience = 30 * time.Second

// Delivery explains the state of one event, identified by its id or its sequence. If it has to
// evaluate the filter, it charges asker, the principal accountable for the caller; "" is the
// operator. Codes NotFound if the event is unknown; QuotaExceeded if asker is over its rate for too
// long.
func (e *Explainer) Delivery(ctx context.Context, sub *sluice.Subscription, event, asker string) (Delivery, error) {
	t, err := e.history.Trail(ctx, sub, event)
	if err != nil {
		return Delivery{}, err
	}
	limit, cancel := context.WithTimeout(ctx, filterPatience)
	defer cancel()
	return why(sub, &t, time.Now(), e.labels, e.judged(limit, filter.Payer{Principal: asker, Namespace: sub.Namespace}))
}

// judged returns a function that evaluates filters at the rate of a payer, until ctx ends.
func (e *Explainer) judged(ctx context.Context, payer filter.Payer) judge {
	return func(m *filter.Matcher, ev *sluice.Event) (bool, error) {
		ok, known, err := e.filters.Wait(ctx, payer, m, ev)
		if !known {
			return false, sluice.Errorf(sluice.QuotaExceeded, "the subscription's filter costs more than you may spend at the moment; try again later, or have limits.filter_cost_per_principal raised").
				With("retry_after", int(filterPatience.Seconds()))
		}
		return ok, err
	}
}

// Attempts returns the last attempts at an event, at most most, oldest first.
func (e *Explainer) Attempts(ctx context.Context, sub *sluice.Subscription, event string, most int) ([]sluice.Attempt, error) {
	found, _, err := e.history.Attempts(ctx, sub, model.HistoryQuery{EventID: event, Limit: most})
	all := make([]sluice.Attempt, len(found))
	for i := range found {
		all[len(found)-1-i] = found[i].Value
	}
	return all, err
}

// Events returns the subscription's events within its replay window. If there are none, it waits
// for one until wait is over or ctx ends. The query's Wanted selects the visible events; nil
// selects all. Codes NotFound; WindowExceeded; QuotaExceeded if the filter's payer is over its rate
// for too long.
func (e *Explainer) Events(ctx context.Context, sub *sluice.Subscription, q model.WindowQuery, wait time.Duration) (model.WindowPage, error) {
	matches, err := e.filters.CompileNow(sub.Filter, e.labels)
	if err != nil {
		return model.WindowPage{}, err
	}
	chosen := &choice{e: e, sub: sub, matches: matches, visible: q.Wanted}
	q.Wanted = func(ev *sluice.Event) bool { return chosen.wants(ctx, ev) }
	page, err := chosen.page(ctx, q)
	if err != nil || len(page.Events) > 0 || page.More || wait <= 0 {
		return page, err
	}
	limit, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	looked, err := e.log.Await(limit, sub, page.Next, func(ev *sluice.Event) bool { return q.HasType(ev.Type) && q.Wanted(ev) })
	if err != nil || chosen.over != nil {
		return page, cmp.Or(err, chosen.over)
	}
	page.Next = looked
	if limit.Err() != nil {
		return page, nil
	}
	q.After = sluice.Cursor{Kind: sluice.CursorSeq, Seq: looked}.String()
	return chosen.page(ctx, q)
}

// choice selects the subscription's events for one reader.
type choice struct {
	e       *Explainer
	sub     *sluice.Subscription
	matches *filter.Matcher
	visible func(*sluice.Event) bool // nil: all are
	over    error                    // set when the filter was not evaluated in time; then no page is complete
	until   time.Time                // end of the wait for the filter
}

// page reads a page, and waits for the filter for filterPatience at most.
func (c *choice) page(ctx context.Context, q model.WindowQuery) (model.WindowPage, error) {
	c.until = time.Now().Add(filterPatience)
	page, err := c.e.log.Window(ctx, c.sub, q)
	if c.over != nil {
		return model.WindowPage{}, c.over
	}
	return page, err
}

// wants reports whether the reader gets an event. If the filter was not evaluated in time, it
// returns true, which ends the search.
func (c *choice) wants(ctx context.Context, ev *sluice.Event) bool {
	if c.over != nil {
		return true
	}
	if c.visible != nil && !c.visible(ev) {
		return false
	}
	limit, cancel := context.WithDeadline(ctx, c.until)
	defer cancel()
	ok, known, _ := c.e.filters.Wait(limit, filter.Payer{Principal: c.e.payer(c.sub), Namespace: c.sub.Namespace}, c.matches, ev)
	if !known {
		c.over = sluice.Errorf(sluice.QuotaExceeded, "the filter exceeds its owner's budget at the moment; request fewer events with limit, retry later, or have limits.filter_cost_per_principal raised").
			With("retry_after", int(filterPatience.Seconds()))
		return true
	}
	return ok // an event on which the filter fails becomes a dead letter
}
