package feed

import (
	"context"
	"sync"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// busyRetry is after how many seconds there may be room for another feed.
const busyRetry = 10

// Use is what feeds take of a server.
type Use struct {
	Feeds     int    // that are open
	Missed    uint64 // frames that readers have missed since the start
	Refused   uint64 // feeds that were not opened since the start because there were too many
	Rings     int    // namespaces whose last events are kept
	RingBytes int    // that these take
}

// Use returns what feeds take now.
func (e *Engine) Use() Use {
	tails := e.hubs.Tails()
	u := Use{Feeds: e.open(), Missed: e.lagged.Load(), Refused: e.refused.Load(), Rings: len(tails)}
	for _, t := range tails {
		if r := t.Ring(); r != nil {
			u.RingBytes += r.Weight()
		}
	}
	return u
}

// open returns how many feeds are open.
func (e *Engine) open() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.feeds
}

// Limits returns how many feeds there may be, in all and of one principal.
func (e *Engine) Limits() (most, perCaller int) { return e.opts.Most, e.opts.PerCaller }

// admit counts a feed, until release. Code QuotaExceeded if there are too many, in all or of its caller; whom no grant bounds
// may have any number of his own.
func (e *Engine) admit(c sluice.Caller) (release func(), err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.feeds >= e.opts.Most {
		e.refused.Add(1)
		return nil, sluice.Errorf(sluice.QuotaExceeded, "this server has %d feeds, the limit; retry, or have feed.max_feeds raised", e.feeds).
			With("limit", e.opts.Most).With("unit", "feeds").With("allowed", 0).With("retry_after", busyRetry)
	}
	if n := e.callers[c.Principal]; !c.Unbounded() && n >= e.opts.PerCaller {
		e.refused.Add(1)
		return nil, sluice.Errorf(sluice.QuotaExceeded, "%s has %d feeds on this server, the limit; close some, or have feed.max_per_principal raised", c.Principal, n).
			With("limit", e.opts.PerCaller).With("unit", "feeds of a principal").With("allowed", 0).With("retry_after", busyRetry)
	}
	e.feeds++
	e.callers[c.Principal]++
	return sync.OnceFunc(func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.feeds--
		if e.callers[c.Principal]--; e.callers[c.Principal] == 0 {
			delete(e.callers, c.Principal)
		}
	}), nil
}

// share divides what all rings may take among those that there are, and returns what each has.
func (e *Engine) share() int {
	tails := e.hubs.Tails()
	each := min(e.opts.RingBytes, e.opts.AllBytes/max(1, len(tails)))
	for _, t := range tails {
		if r := t.Ring(); r != nil {
			r.Limit(each)
		}
	}
	return each
}

// What the expression of a feed's filter may cost in a second, about a sixth of a processor, and what of that may be saved up.
const (
	costPerSecond = 2_000_000
	costSaved     = 2 * costPerSecond
)

// budget is what looking at events may still cost a feed. Its zero value is a full one.
type budget struct {
	owed float64 // cost that is not paid for
	seen uint64  // cost that was entered
	at   time.Time
}

// wait enters what was spent since the start, and returns how long to look at nothing.
func (b *budget) wait(spent uint64, now time.Time) time.Duration {
	b.owed = max(0, b.owed-costPerSecond*now.Sub(b.at).Seconds()) + float64(spent-b.seen)
	b.seen, b.at = spent, now
	return time.Duration(max(0, b.owed-costSaved) / costPerSecond * float64(time.Second))
}

// rest waits if looking was dear. The hub does not look for the feed meanwhile: it reads the log then.
func (f *Feed) rest(ctx context.Context) {
	wait := f.budget.wait(f.filter.Spent(), time.Now())
	if wait <= 0 {
		return
	}
	f.mu.Lock()
	f.dear = true
	f.mu.Unlock()
	alarm := time.NewTimer(wait)
	defer alarm.Stop()
	await(ctx, nil, alarm.C)
}
