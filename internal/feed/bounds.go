package feed

import (
	"context"
	"sync"
	"time"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// busyRetry is the Retry-After of a refused feed, in seconds.
const busyRetry = 10

// Gauges returns a snapshot of the use of resources.
func (e *Engine) Gauges() model.FeedGauges {
	tails := e.hubs.Tails()
	u := model.FeedGauges{Feeds: e.open(), Missed: e.lagged.Load(), Refused: e.refused.Load(), Rings: len(tails)}
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

// Limits returns the maximum number of feeds, of all callers together and of one principal.
func (e *Engine) Limits() (most, perCaller int) { return e.opts.Most, e.opts.PerCaller }

// admit counts a feed until release is called. Code QuotaExceeded if there are too many feeds in
// all, or of the caller. A caller without a grant has no limit of its own.
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

// share divides the memory for rings among the existing rings, and returns the share of each in
// bytes.
func (e *Engine) share() int { return e.hubs.Share(e.opts.RingBytes, e.opts.AllBytes) }

// Cost limit of a feed's filter expression per second, about a sixth of a processor, and the
// maximum credit.
const (
	costPerSecond = 2_000_000
	costSaved     = 2 * costPerSecond
)

// budget limits the cost of a feed's filter per second. Its zero value has full credit.
type budget struct {
	owed float64 // unpaid cost
	seen uint64  // the total cost at the last call of wait
	at   time.Time
}

// wait charges the cost since the last call, given the total cost since the start, and returns how
// long to pause.
func (b *budget) wait(spent uint64, now time.Time) time.Duration {
	b.owed = max(0, b.owed-costPerSecond*now.Sub(b.at).Seconds()) + float64(spent-b.seen)
	b.seen, b.at = spent, now
	return time.Duration(max(0, b.owed-costSaved) / costPerSecond * float64(time.Second))
}

// rest pauses after expensive filtering by this feed or by others of its payer. Meanwhile the hub
// does not look at events for the feed; afterwards the feed reads the log.
func (f *Feed) rest(ctx context.Context) {
	f.mu.Lock()
	wait := max(f.budget.wait(f.filter.Spent(), time.Now()), f.owes)
	f.owes = 0
	f.dear = f.dear || wait > 0
	f.mu.Unlock()
	if wait <= 0 {
		return
	}
	alarm := time.NewTimer(wait)
	defer alarm.Stop()
	await(ctx, nil, alarm.C)
}
