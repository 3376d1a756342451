package delivery

import (
	"context"
	"time"

	"golang.org/x/time/rate"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// burst limits the burst after an idle time to one fiftieth of the rate. Receivers count in windows
// of their own, and their count must not exceed the rate.
const burst = 50

// dispatch hands out tasks that may start now, and sets the timer to the start of the next.
func (r *runner) dispatch(work context.Context, wake *time.Timer) {
	now := time.Now()
	may, next := r.admits(now)
	for r.mayStart(now, may) {
		t, _ := r.lanes.next(now, may) // there is one
		t.sub, t.match, t.careful = r.sub, r.match, t.careful || len(r.limits) > 0 || r.paced()
		r.markProbe(&t)
		select {
		case r.tasks <- t:
		default:
			r.workers.Go(func() { r.worker(work, t) })
		}
		r.throttle(t, now)
		may, next = r.admits(now)
	}
	if r.paid { // unused
		r.unpace(now)
	}
	if may != passNone {
		next = r.lanes.wake()
		r.setBreaker(work, r.breaker.settle(now))
	} else if due := r.lanes.wake(); r.waitsUntil().After(now) && due.After(now) && due.Before(next) {
		next = due // to announce that it waits
	}
	if !next.IsZero() {
		wake.Reset(max(0, next.Sub(now)))
	}
}

// mayStart reports whether a task may start now, and if so takes a share of the process's permits.
func (r *runner) mayStart(now time.Time, may permit) bool {
	if !r.lanes.canSend(now, may) {
		r.share.Pass()
		return false
	}
	return r.share.Take()
}

// admits returns which requests are permitted now and, if none, when to ask again, as the breaker
// does. It announces when work waits for the rate or for a Retry-After.
func (r *runner) admits(now time.Time) (permit, time.Time) {
	may, next := r.breaker.admits(now)
	if may != passNone && r.throttled.After(now) {
		may, next = passNone, r.throttled
	}
	if may != passNone && r.askAt.After(now) {
		may, next = passNone, r.askAt
	}
	if may != passNone && !r.pace(now) {
		may, next = passNone, r.throttled
	}
	if until := r.waitsUntil(); until.After(now) && !until.Equal(r.told) && r.lanes.waits(now) {
		r.told = until
		r.observe.Throttled(r.sub)
		r.ports.Announce.Throttled(r.sub, r.throttledBy())
	}
	return may, next
}

// waitsUntil returns when the rate and any Retry-After next allow a request.
func (r *runner) waitsUntil() time.Time { return later(r.throttled, r.breaker.held) }

// throttledBy returns the announced reason for a wait.
func (r *runner) throttledBy() string {
	if r.breaker.held.After(r.throttled) {
		return "retry_after"
	}
	return "rate"
}

// throttle charges a task that sends. A charge beyond the rate delays the next task.
func (r *runner) throttle(t task, now time.Time) {
	if !t.lane.asks {
		return
	}
	r.paid = false
	for _, limit := range r.limits {
		r.throttled = later(r.throttled, now.Add(limit.ReserveN(now, 1).DelayFrom(now)))
	}
}

// paced reports whether the endpoint agreed to a rate.
func (r *runner) paced() bool {
	return r.ports.Pace != nil && r.sub.Agreed != nil && r.sub.Agreed.RatePerMinute > 0
}

// pace charges the next attempt at an endpoint that agreed to a rate, unless it is charged already,
// and reports whether the attempt may start now. If not, throttled is the time to ask again.
func (r *runner) pace(now time.Time) bool {
	if r.paid || !r.paced() {
		return true
	}
	if wait := r.ports.Pace.Take(r.sub, now); wait > 0 {
		r.throttled = now.Add(wait)
		return false
	}
	r.paid = true
	return true
}

// unpace returns the charge of an attempt that is not made.
func (r *runner) unpace(now time.Time) {
	r.paid = false
	r.ports.Pace.Return(r.sub, now)
}

// limitsOf returns a bucket for each bound. It holds a fiftieth of the bound's volume.
func limitsOf(r sluice.Rate) (all []*rate.Limiter) {
	if r.PerSecond > 0 {
		all = append(all, rate.NewLimiter(rate.Limit(r.PerSecond), max(1, int(r.PerSecond/burst))))
	}
	if r.PerMinute > 0 {
		all = append(all, rate.NewLimiter(rate.Limit(r.PerMinute/60), max(1, int(r.PerMinute/burst))))
	}
	return all
}
