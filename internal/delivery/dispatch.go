package delivery

import (
	"context"
	"time"

	"golang.org/x/time/rate"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// burst is which part of a rate may be sent at once, after a time in which less was: the
// fiftieth. Receivers count in windows of their own, and what they count is to be the rate.
const burst = 50

// dispatch hands out tasks while there are some that may start now, and sets the timer to
// when the next one may.
func (r *runner) dispatch(work context.Context, wake *time.Timer) {
	now := time.Now()
	may, next := r.admits(now)
	for r.mayStart(now, may) {
		t, _ := r.book.next(now, may) // there is one
		t.sub, t.match, t.careful = r.sub, r.match, t.careful || len(r.limits) > 0 || r.paced()
		r.ask(&t)
		select {
		case r.tasks <- t:
		default:
			r.workers.Go(func() { r.worker(work, t) })
		}
		r.throttle(t, now)
		may, next = r.admits(now)
	}
	if r.paid { // for nothing
		r.unpace(now)
	}
	if may != passNone {
		next = r.book.wake()
		r.turn(work, r.breaker.settle(now))
	} else if due := r.book.wake(); r.waitsUntil().After(now) && due.After(now) && due.Before(next) {
		next = due // to tell that it waits
	}
	if !next.IsZero() {
		wake.Reset(max(0, next.Sub(now)))
	}
}

// mayStart reports whether there is a task that may start now, and has its place among those
// of the process then.
func (r *runner) mayStart(now time.Time, may pass) bool {
	if !r.book.can(now, may) {
		r.share.Pass()
		return false
	}
	return r.share.Take()
}

// admits returns what may be sent now, and if that is nothing when to ask again, as the breaker
// does. It tells if something waits for the rate or for a Retry-After.
func (r *runner) admits(now time.Time) (pass, time.Time) {
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
	if until := r.waitsUntil(); until.After(now) && !until.Equal(r.told) && r.book.waits(now) {
		r.told = until
		r.observe.Throttled(r.sub)
		r.ports.Announce.Throttled(r.sub, r.throttledBy())
	}
	return may, next
}

// waitsUntil returns what the rate or a Retry-After makes everything wait for.
func (r *runner) waitsUntil() time.Time { return later(r.throttled, r.breaker.held) }

// throttledBy says what everything waits for, to those who are told of it.
func (r *runner) throttledBy() string {
	if r.breaker.held.After(r.throttled) {
		return "retry_after"
	}
	return "rate"
}

// throttle pays for a task that sends; what cannot be paid now is waited for before the next.
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

// pace pays for the next attempt at an endpoint that agreed to a rate, unless that is done, and reports whether it may be
// made now. If not, throttled says when to ask again.
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

// unpace gives back what was paid for an attempt that is not made.
func (r *runner) unpace(now time.Time) {
	r.paid = false
	r.ports.Pace.Return(r.sub, now)
}

// limitsOf returns a bucket for each bound. It holds a fiftieth of what may be sent in its time.
func limitsOf(r sluice.Rate) (all []*rate.Limiter) {
	if r.PerSecond > 0 {
		all = append(all, rate.NewLimiter(rate.Limit(r.PerSecond), max(1, int(r.PerSecond/burst))))
	}
	if r.PerMinute > 0 {
		all = append(all, rate.NewLimiter(rate.Limit(r.PerMinute/60), max(1, int(r.PerMinute/burst))))
	}
	return all
}
