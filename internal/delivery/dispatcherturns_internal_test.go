package delivery

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/delivery/breaker"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// asked returns a lane whose task made a request in the breaker's epoch.
func asked(d *dispatcher, key string) *lane {
	l := &lane{key: key}
	d.markProbe(&task{lane: l, kind: taskSend})
	return l
}

var (
	failedAttempt    = sluice.Attempt{Outcome: sluice.Failed, Status: 500}
	deliveredAttempt = sluice.Attempt{Outcome: sluice.Delivered, Status: 204}
)

// New settings keep what they do not concern: the breaker and the continuous failure belong to the URL, the buckets to the rate.
func TestDispatcher_AdoptsSettings(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	sub := func(url string, perSecond float64) *sluice.Subscription {
		s := &sluice.Subscription{Policy: sluice.Policy{Rate: sluice.Rate{PerSecond: perSecond}}}
		s.Endpoint.URL = url
		return s
	}
	for _, c := range []struct {
		name                          string
		is, to                        *sluice.Subscription
		given                         sluice.Rate
		first                         bool
		keepsState, keepsRate, bucket bool
	}{
		{"the same", sub("a", 1), sub("a", 1), sluice.Rate{}, false, true, true, true},
		{"the first", sub("a", 1), sub("a", 1), sluice.Rate{}, true, true, false, true},
		{"another rate", sub("a", 1), sub("a", 2), sluice.Rate{}, false, true, false, true},
		{"no rate", sub("a", 1), sub("a", 0), sluice.Rate{}, false, true, false, false},
		{"another URL", sub("a", 1), sub("b", 1), sluice.Rate{}, false, false, true, true},
		{"a given rate that hides the other", sub("a", 1), sub("a", 2), sluice.Rate{PerSecond: 3}, false, true, true, true},
	} {
		d := newDispatcher()
		d.sub, d.limits = c.is, limitsOf(c.is.Policy.Rate)
		before := d.limits
		d.breaker = breaker.Opened(now, 0)
		d.failing, d.throttled = breaker.Failing{Since: now}, now
		d.adopt(c.to, c.given, c.first)
		require.Same(t, c.to, d.sub, c.name)
		require.Equal(t, c.keepsState, !d.breaker.Closed(), c.name)
		require.Equal(t, c.keepsState, d.failing == breaker.Failing{Since: now}, c.name)
		require.Equal(t, c.keepsState && c.keepsRate, d.throttled.Equal(now), c.name)
		require.Equal(t, c.bucket, len(d.limits) == 1, c.name)
		if c.bucket {
			require.Equal(t, c.keepsRate, d.limits[0] == before[0], c.name)
		}
	}
}

// An answer counts once, for the epoch of its request.
func TestDispatcher_HearsAnAnswerOnce(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	d := newDispatcher()
	d.breaker = breaker.Opened(now, 0)
	l := asked(d, "a")
	require.Equal(t, d.breaker.Epoch(), l.epoch)
	may, _ := d.breaker.Admits(now)
	require.Equal(t, breaker.None, may, "the probe is in flight")
	require.True(t, d.heard(l, &deliveredAttempt, now, 0), "the probe healed it")
	require.Equal(t, sluice.BreakerHalfOpen, d.breaker.State())
	is := d.breaker
	require.False(t, d.heard(l, &failedAttempt, now, 0), "its request was heard of")
	require.Equal(t, is, d.breaker)

	quiet := &lane{key: "b"}
	d.markProbe(&task{lane: quiet, kind: taskUnpark})
	require.False(t, quiet.asks, "it asks for nothing")
	resumed := &lane{key: "c"}
	d.markProbe(&task{lane: resumed, kind: taskResume})
	require.True(t, resumed.asks)

	require.False(t, d.heard(asked(d, "d"), nil, now, 0), "no attempt was made")
	require.Equal(t, sluice.BreakerHalfOpen, d.breaker.State())
}

// S0-84: the endpoint's Retry-After holds its requests, from the beginning of the attempt.
func TestDispatcher_HearsARetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	d := newDispatcher()
	wait := failedAttempt
	wait.RetryAfter, wait.StartedAt = time.Minute, now
	require.False(t, d.heard(asked(d, "a"), &wait, now.Add(time.Second), 0))
	require.False(t, d.breaker.Held().IsZero())
	_, again := d.admits(now.Add(time.Second))
	require.Equal(t, d.breaker.Held(), again)
}

// A lane whose probe failed is spared: its failures count no more until others succeed, or it delivers.
func TestDispatcher_SparesALaneThatProbed(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	d := newDispatcher()
	d.breaker = halfOpen(now, 4)
	probe := failedAttempt
	probe.Probe = true
	l := asked(d, "a")
	mark := d.breaker.Mark()
	d.heard(l, &probe, now, 0)
	require.Equal(t, mark, l.spared)
	spare := task{lane: l, kind: taskSend}
	d.markProbe(&spare)
	require.Positive(t, spare.spare)

	d.breaker = halfOpen(now, 6)
	own := task{lane: l, kind: taskSend}
	d.markProbe(&own)
	require.Zero(t, own.spare, "others succeeded since: it fails by itself")
	d.heard(l, &failedAttempt, now, 0)
	require.Equal(t, mark, l.spared, "an ordinary failure changes nothing")
	d.markProbe(&own)
	d.heard(l, &deliveredAttempt, now, 0)
	require.Zero(t, l.spared)
}

// The pauses of a gate that cannot decide double up to five seconds; one of them is worth a line in the log.
func TestDispatcher_PausesOfTheGateDouble(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	d := newDispatcher()
	var waits []time.Duration
	var notable []bool
	for range 8 {
		notable = append(notable, d.backOffGate(now))
		waits = append(waits, d.askAt.Sub(now))
		is := *d
		require.False(t, d.backOffGate(now), "it was asked about several at once")
		require.Equal(t, is.askAt, d.askAt)
		now = d.askAt
	}
	const ms = time.Millisecond
	require.Equal(t, []time.Duration{100 * ms, 200 * ms, 400 * ms, 800 * ms, 1600 * ms, 3200 * ms, 5000 * ms, 5000 * ms}, waits)
	require.Equal(t, []bool{false, false, false, false, true, false, false, false}, notable)
	d.gateBackoff = loggedGateBackoff / 2
	require.True(t, d.backOffGate(now), "a second is logged")
	d.gateBackoff, now = loggedGateBackoff, d.askAt
	require.False(t, d.backOffGate(now), "two seconds are not logged again")
}

// A task that sent nothing gets its charge back.
func TestDispatcher_RefundsUnsentTasks(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	d := newDispatcher()
	d.throttled = now.Add(time.Minute)
	d.refund(now)
	require.Equal(t, now.Add(time.Minute), d.throttled, "no rate was charged")

	d.limits, d.throttled = limitsOf(sluice.Rate{PerSecond: 1}), time.Time{}
	for range 3 {
		d.throttle(task{lane: &lane{asks: true}}, now)
	}
	require.Equal(t, now.Add(2*time.Second), d.throttled)
	d.throttle(task{lane: &lane{}}, now)
	require.Equal(t, now.Add(2*time.Second), d.throttled, "it asks for nothing")
	d.refund(now)
	require.Equal(t, now.Add(time.Second), d.throttled)
	d.refund(now)
	require.Zero(t, d.throttled)

	paced, p := newDispatcher(), &onePace{}
	paced.pacer = p
	paced.refund(now)
	require.Zero(t, p.returned, "nothing is agreed")
	paced.sub.Agreed, paced.paid, paced.throttled = &sluice.Agreement{RatePerMinute: 1}, true, now
	paced.refund(now)
	require.Equal(t, 1, p.returned)
	require.False(t, paced.paid)
	require.Zero(t, paced.throttled)
	paced.pacer = nil
	paced.refund(now)
	require.Equal(t, 1, p.returned, "endpoints agree to no rate")
}

// What came of the head of a parked lane decides what the lane does next.
func TestDispatcher_EntersResultsOfParkedLanes(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	parked := func() (*dispatcher, *lane) {
		d := newDispatcher()
		d.limits = limitsOf(sluice.Rate{PerSecond: 1})
		d.parked(7, 9, now, now)
		return d, d.decide(now).tasks[0].lane
	}
	d, l := parked()
	res := result{kind: resultUnparked, lane: l}
	require.Empty(t, d.enter(&res, now))
	require.Nil(t, l.park)

	d, l = parked()
	d.throttle(task{lane: &lane{asks: true}}, now)
	require.Equal(t, now.Add(time.Second), d.throttled)
	res = result{kind: resultDoubtful, lane: l, park: *l.park}
	require.Empty(t, d.enter(&res, now))
	require.True(t, l.doubtful)
	require.NotEqual(t, now.Add(time.Second), d.throttled, "it sent nothing")

	d, l = parked()
	done := newAct(sluice.ReplayRetry, 7)
	l.acts = []*act{done}
	res = result{kind: resultReleased, lane: l, park: park{ParkedEntry: model.ParkedEntry{Parked: sluice.Parked{Lane: "p", FromSeq: 7, NextAt: now}}}}
	require.Empty(t, d.enter(&res, now))
	require.Empty(t, l.acts)
	require.Equal(t, actedDone, <-done.done)
}

// line counts how often a runner leaves the line for a place.
type line struct{ left int }

// Take has no place.
func (*line) Take() bool { return false }

// Pass leaves the line.
func (l *line) Pass() { l.left++ }

// A subscription that has nothing to send does not stand in line for a place.
func TestDispatcher_LeavesTheLineWithoutWork(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	d, places := newDispatcher(), &line{}
	d.places = places
	d.decide(now)
	require.Equal(t, 1, places.left)
	d.lanes.arrive("a", &model.Delivery{Event: sluice.Event{Seq: 1}})
	d.decide(now)
	require.Equal(t, 1, places.left, "it waits for a place")
}
