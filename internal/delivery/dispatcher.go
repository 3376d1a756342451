package delivery

import (
	"cmp"
	"time"

	"golang.org/x/time/rate"

	"github.com/sluice-io/sluice/internal/delivery/breaker"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Backoff after the gate could not decide.
const (
	minGateBackoff    = 100 * time.Millisecond
	maxGateBackoff    = 5 * time.Second
	loggedGateBackoff = time.Second // pauses from this length on are logged
)

// burst limits the burst after an idle time to one fiftieth of the rate. Receivers count requests
// in windows of their own, and in none of them may the count exceed the rate.
const burst = 50

// dispatcher decides which tasks of a subscription start, and when. It considers the lanes, the
// breaker, the rate, the pace of the endpoint, the backoff of the gate and the subscription's fair
// share of the process's permits. The runner, its only user, executes the tasks and enters their
// results. The dispatcher does no I/O, reads no clock and starts no goroutine. Pace and share are
// counters in memory that runners have in common.
type dispatcher struct {
	sub     *sluice.Subscription
	lanes   *laneTable
	breaker breaker.Breaker
	failing breaker.Failing

	limits      []*rate.Limiter // none: unbounded
	throttled   time.Time       // nothing is sent before this, because of the rate
	told        time.Time       // the end of the wait that was announced last
	askAt       time.Time       // nothing is sent before this, because the gate could not decide
	gateBackoff time.Duration

	pacer  Pace   // nil: no shared rates
	paid   bool   // the next attempt is already charged to the shared rate
	places places // its fair share of the process's permits

	tasks []task // scratch memory for plan.tasks
}

// places is a fair share of the process's permits for attempts.
type places interface {
	Take() bool // takes a permit, or returns false and waits in line
	Pass()      // stops waiting in line
}

// plan is a decision: what the runner does now, and when it asks again.
type plan struct {
	tasks  []task    // to start, in order; valid until the next decision
	waits  []string  // reasons to announce why work waits: rate, retry_after
	turned bool      // the breaker's state changed
	wake   time.Time // when to decide again; zero: after the next result
}

// decide returns the tasks to start now, and when to decide again.
func (d *dispatcher) decide(now time.Time) plan {
	p := plan{tasks: d.tasks[:0]}
	may, next := d.permitted(now, &p)
	for d.mayStart(now, may) {
		t, _ := d.lanes.next(now, may) // mayStart has checked that there is one
		t.sub, t.careful = d.sub, t.careful || len(d.limits) > 0 || d.paced()
		d.markProbe(&t)
		p.tasks = append(p.tasks, t)
		d.throttle(t, now)
		may, next = d.permitted(now, &p)
	}
	d.tasks = p.tasks
	if d.paid { // charged, but not used
		d.unpace(now)
	}
	if may != breaker.None {
		next = d.lanes.wake()
		p.turned = d.turn(d.breaker.Settle(now))
	} else if due := d.lanes.wake(); d.waitsUntil().After(now) && due.After(now) && due.Before(next) {
		next = due // so that the wait is announced when work is due
	}
	p.wake = next
	return p
}

// permitted is admits. It also adds to the plan that work waits for the rate or for a Retry-After,
// once for each wait.
func (d *dispatcher) permitted(now time.Time, p *plan) (breaker.Permit, time.Time) {
	may, next := d.admits(now)
	if until := d.waitsUntil(); until.After(now) && !until.Equal(d.told) && d.lanes.waits(now) {
		d.told = until
		p.waits = append(p.waits, d.throttledBy())
	}
	return may, next
}

// mayStart reports whether a task may start now. If so, it has taken a permit.
func (d *dispatcher) mayStart(now time.Time, may breaker.Permit) bool {
	if !d.lanes.canSend(now, may) {
		d.places.Pass()
		return false
	}
	return d.places.Take()
}

// admits returns which requests are permitted now and, if none, when to ask again, as the breaker
// does.
func (d *dispatcher) admits(now time.Time) (breaker.Permit, time.Time) {
	may, next := d.breaker.Admits(now)
	switch {
	case may == breaker.None:
		return may, next
	case d.throttled.After(now):
		return breaker.None, d.throttled
	case d.askAt.After(now):
		return breaker.None, d.askAt
	case !d.pace(now):
		return breaker.None, d.throttled
	}
	return may, next
}

// waitsUntil returns the time from which the rate and any Retry-After permit a request.
func (d *dispatcher) waitsUntil() time.Time { return later(d.throttled, d.breaker.Held()) }

// throttledBy returns the reason for a wait, as it is announced.
func (d *dispatcher) throttledBy() string {
	if d.breaker.Held().After(d.throttled) {
		return "retry_after"
	}
	return "rate"
}

// throttle charges a task that sends to the rate. A charge beyond the rate delays the next task.
func (d *dispatcher) throttle(t task, now time.Time) {
	if !t.lane.asks {
		return
	}
	d.paid = false
	for _, limit := range d.limits {
		d.throttled = later(d.throttled, now.Add(limit.ReserveN(now, 1).DelayFrom(now)))
	}
}

// paced reports whether the endpoint agreed to a rate, or the subscription shares its rate with
// others.
func (d *dispatcher) paced() bool {
	agreed := d.sub.Agreed != nil && d.sub.Agreed.RatePerMinute > 0
	return d.pacer != nil && (agreed || d.sub.Policy.Rate.Key != "")
}

// pace charges the next attempt to the rates that others share, unless it is charged already, and
// reports whether the attempt may start now. If not, it sets throttled to the time to ask again.
func (d *dispatcher) pace(now time.Time) bool {
	if d.paid || !d.paced() {
		return true
	}
	if wait := d.pacer.Take(d.sub, now); wait > 0 {
		d.throttled = now.Add(wait)
		return false
	}
	d.paid = true
	return true
}

// unpace gives back the shared charge of an attempt that is not made.
func (d *dispatcher) unpace(now time.Time) {
	d.paid = false
	d.pacer.Return(d.sub, now)
}

// limitsOf returns a bucket for each limit of a rate, none for a rate that others share. A bucket
// holds a fiftieth of its limit.
func limitsOf(r sluice.Rate) (all []*rate.Limiter) {
	if r.Key != "" {
		return nil
	}
	if r.PerSecond > 0 {
		all = append(all, rate.NewLimiter(rate.Limit(r.PerSecond), max(1, int(r.PerSecond/burst))))
	}
	if r.PerMinute > 0 {
		all = append(all, rate.NewLimiter(rate.Limit(r.PerMinute/60), max(1, int(r.PerMinute/burst))))
	}
	return all
}

// adopt applies the subscription's settings. given, if not zero, replaces the subscription's rate.
// The buckets start full if the rate has changed, or if these are the first settings.
func (d *dispatcher) adopt(sub *sluice.Subscription, given sluice.Rate, first bool) { //nolint:revive // first is a fact
	if d.sub.Endpoint.URL != sub.Endpoint.URL {
		d.breaker, d.failing = d.breaker.Reset(), breaker.Failing{}
		d.throttled = time.Time{} // it was the wait of the other endpoint
	}
	if limit := cmp.Or(given, sub.Policy.Rate); first || cmp.Or(given, d.sub.Policy.Rate) != limit {
		d.limits = limitsOf(limit)
		d.throttled = time.Time{} // the old rate may have been very low
	}
	d.sub = sub
}

// markProbe tells the breaker that a task that makes a request starts. If the breaker is not
// closed, it makes the task a probe.
func (d *dispatcher) markProbe(t *task) {
	l := t.lane
	l.asks = t.kind == taskSend || t.kind == taskResume
	if !l.asks {
		return
	}
	if !d.breaker.Closed() && !d.breaker.IsCurrent(l.spared) {
		t.spare = d.breaker.NextPause()
	}
	l.epoch = d.breaker.Epoch()
	d.breaker = d.breaker.Began()
}

// heard applies the outcome of a task to the breaker, nil if the task made no attempt, and reports
// whether the breaker's state changed. random, in [0, 1), is the jitter of the next probe.
func (d *dispatcher) heard(l *lane, a *sluice.Attempt, now time.Time, random float64) (turned bool) {
	if !l.asks {
		return false
	}
	l.asks = false
	heard := breaker.Answer{Epoch: l.epoch, Lane: l.key, Outcome: classify(a), Own: d.breaker.IsCurrent(l.spared)}
	if a != nil {
		heard.Began, heard.Wait = a.StartedAt, a.RetryAfter
		switch {
		case a.Probe:
			l.spared = d.breaker.Mark()
		case a.Outcome == sluice.Delivered:
			l.spared = breaker.Mark{}
		}
	}
	return d.turn(d.breaker.Ended(heard, d.sub.Policy.Window, now, random))
}

// turn replaces the breaker, and reports whether its state changed.
func (d *dispatcher) turn(b breaker.Breaker) bool {
	before := d.breaker
	d.breaker = b
	return (!before.Closed() || !b.Closed()) && before.State() != b.State()
}

// enter applies a result to the lanes, and returns the deliveries for the runner to acknowledge.
func (d *dispatcher) enter(res *result, now time.Time) (acks []*model.Delivery) {
	switch res.kind {
	case resultSettled:
		acks = d.lanes.settled(res.lane, res.more)
	case resultBlocked:
		d.lanes.unblock(res.lane)
	case resultParked:
		acks = d.lanes.stored(res.lane, res.park.ParkedEntry, now)
	case resultResumed:
		d.lanes.resumed(res.lane, res.park)
	case resultDoubtful:
		d.lanes.suspect(res.lane, res.park)
		d.refund(now)
	case resultUnparked:
		d.lanes.unparked(res.lane)
	case resultReleased, resultDiscarded:
		d.lanes.acted(res.lane, res.park, now)
	}
	return acks
}

// backOffGate starts a pause after the gate could not decide; nothing is sent until it is over. It
// returns true once, when pauses have become long enough to be logged.
func (d *dispatcher) backOffGate(now time.Time) (notable bool) {
	if d.askAt.After(now) {
		return false // several attempts asked at once
	}
	d.gateBackoff = min(max(2*d.gateBackoff, minGateBackoff), maxGateBackoff)
	d.askAt = now.Add(d.gateBackoff)
	return d.gateBackoff >= loggedGateBackoff && d.gateBackoff < 2*loggedGateBackoff
}

// refund gives back the charges of a task that sent nothing.
func (d *dispatcher) refund(now time.Time) {
	if d.paced() {
		d.unpace(now)
	}
	if len(d.limits) == 0 && !d.paced() {
		return
	}
	d.throttled = time.Time{}
	for _, limit := range d.limits {
		limit.ReserveN(now, -1)
		if missing := -limit.TokensAt(now); missing > 0 {
			d.throttled = later(d.throttled, now.Add(time.Duration(missing/float64(limit.Limit())*float64(time.Second))))
		}
	}
}
