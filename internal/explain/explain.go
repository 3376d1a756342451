// Package explain knows what became of a subscription's events, and says it to those who ask
// why one has not arrived. What is known lies in several places: the log of events, the log of
// attempts, dead letters, records of parked lanes, and how far the subscription's consumer has
// come. Why puts it together, without I/O and without a clock; the rest of the package fetches.
package explain

import (
	"context"
	"time"

	"github.com/sluice-io/sluice/internal/filter"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// History is what was recorded of deliveries.
type History interface {
	// Attempts returns a subscription's attempts, newest first, and the place of the page that
	// follows, 0: none.
	Attempts(ctx context.Context, sub *sluice.Subscription, q sluice.HistoryQuery) ([]sluice.Placed[sluice.Attempt], uint64, error)
	// LetterHistory is the same for what was given up.
	LetterHistory(ctx context.Context, sub *sluice.Subscription, q sluice.HistoryQuery) ([]sluice.Placed[sluice.DeadLetter], uint64, error)
	// FirstAttemptAt returns from when on the log has attempts; zero: it has none.
	FirstAttemptAt(ctx context.Context, sub *sluice.Subscription) (time.Time, error)
	// ParkedLanes returns the lanes that wait.
	ParkedLanes(ctx context.Context, sub *sluice.Subscription) ([]sluice.Parked, error)
	// Forgotten returns those lanes whose head's attempts are in the log no more.
	Forgotten(ctx context.Context, sub *sluice.Subscription, lanes []sluice.Parked) ([]sluice.Parked, error)
	// Trail returns all that is known of one event. Code NotFound if that is nothing.
	Trail(ctx context.Context, sub *sluice.Subscription, event string) (sluice.Trail, error)
}

// Log has a namespace's events.
type Log interface {
	// Window returns events of the subscription's replay window. Codes NotFound; WindowExceeded.
	Window(ctx context.Context, sub *sluice.Subscription, q sluice.WindowQuery) (sluice.WindowPage, error)
	// Await returns when there is a wanted event after the sequence, or ctx has ended, and up to
	// where there is none.
	Await(ctx context.Context, sub *sluice.Subscription, after uint64, wanted func(*sluice.Event) bool) (uint64, error)
}

// Explainer answers questions about subscriptions' events.
type Explainer struct {
	history History
	log     Log
	labels  filter.Labels
}

// New returns an explainer. Labels are those of events' types; nil: there are none.
func New(history History, log Log, labels filter.Labels) *Explainer {
	return &Explainer{history: history, log: log, labels: labels}
}

// Delivery says what became of one event, named by its id or its sequence. Code NotFound if
// nothing is known of such an event.
func (e *Explainer) Delivery(ctx context.Context, sub *sluice.Subscription, event string) (Delivery, error) {
	t, err := e.history.Trail(ctx, sub, event)
	if err != nil {
		return Delivery{}, err
	}
	return why(sub, &t, time.Now(), e.labels), nil
}

// Attempts returns the last attempts at an event, at most so many, oldest first.
func (e *Explainer) Attempts(ctx context.Context, sub *sluice.Subscription, event string, most int) ([]sluice.Attempt, error) {
	found, _, err := e.history.Attempts(ctx, sub, sluice.HistoryQuery{EventID: event, Limit: most})
	all := make([]sluice.Attempt, len(found))
	for i := range found {
		all[len(found)-1-i] = found[i].Value
	}
	return all, err
}

// Events returns the events that the subscription gets, within its replay window; where there
// is none it waits until there is one, or wait is over, or ctx ends. The query's Wanted says which of
// all may be seen; nil: all. Codes NotFound; WindowExceeded.
func (e *Explainer) Events(ctx context.Context, sub *sluice.Subscription, q sluice.WindowQuery, wait time.Duration) (sluice.WindowPage, error) {
	matches, err := filter.CompileWith(sub.Filter, e.labels)
	if err != nil {
		return sluice.WindowPage{}, err
	}
	visible := q.Wanted
	q.Wanted = func(ev *sluice.Event) bool {
		if visible != nil && !visible(ev) {
			return false
		}
		ok, err := matches.Match(ev)
		return ok && err == nil // what cannot be told becomes a dead letter
	}
	page, err := e.log.Window(ctx, sub, q)
	if err != nil || len(page.Events) > 0 || page.More || wait <= 0 {
		return page, err
	}
	limit, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	looked, err := e.log.Await(limit, sub, page.Next, func(ev *sluice.Event) bool { return q.HasType(ev.Type) && q.Wanted(ev) })
	if err != nil {
		return page, err
	}
	page.Next = looked
	if limit.Err() != nil {
		return page, nil
	}
	q.After = sluice.Cursor{Kind: sluice.CursorSeq, Seq: looked}.String()
	return e.log.Window(ctx, sub, q)
}
