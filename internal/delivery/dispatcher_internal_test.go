package delivery

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/delivery/breaker"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// free is a number of free places.
type free int

// Take takes one.
func (f *free) Take() bool {
	*f--
	return *f >= 0
}

// Pass leaves the line: nothing was taken.
func (*free) Pass() {}

// newDispatcher returns the dispatcher of a subscription with a window of two and a lane for each key.
func newDispatcher(keys ...string) *dispatcher {
	places := free(10)
	d := &dispatcher{sub: &sluice.Subscription{ID: "s", Policy: sluice.Policy{Window: 2}}, lanes: newLaneTable(2), places: &places}
	for i, key := range keys {
		d.lanes.arrive(key, &model.Delivery{Event: sluice.Event{Seq: uint64(i + 1)}})
	}
	return d
}

// parked enters the parked lane p, whose head is at a sequence and due at a time, and which is known up to another.
func (d *dispatcher) parked(from, upTo uint64, at, now time.Time) {
	d.lanes.load(model.ParkedEntry{Parked: sluice.Parked{Lane: "p", FromSeq: from, NextAt: at}}, upTo, now)
}

// halfOpen returns a breaker that is half-open after successes of its requests at a time.
func halfOpen(at time.Time, successes int) breaker.Breaker {
	b := breaker.Opened(at, 0)
	for range successes {
		b = b.Began().Ended(breaker.Answer{Epoch: b.Epoch(), Outcome: breaker.Well}, 64, at, 0)
	}
	return b
}

// text returns a plan as text, its times from now on.
func (p *plan) text(now time.Time) string {
	var all []string
	for _, t := range p.tasks {
		kind := [...]string{"send", "spill", "resume", "unpark", "release", "discard"}[t.kind]
		if t.spare > 0 {
			kind = "probe"
		}
		if t.careful {
			kind += " carefully"
		}
		all = append(all, kind+" "+t.lane.key)
	}
	for _, why := range p.waits {
		all = append(all, "waits for "+why)
	}
	if p.turned {
		all = append(all, "turned")
	}
	if !p.wake.IsZero() {
		all = append(all, fmt.Sprint("again in ", p.wake.Sub(now)))
	}
	return strings.Join(all, ", ")
}

// What starts next depends on the lanes, the breaker, the rates, the gate's pauses and the free places alone.
func TestDispatcher_DecidesTheNextStart(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	in := now.Add
	for _, c := range []struct {
		name  string
		keys  []string
		given func(*dispatcher)
		want  string
	}{
		{"nothing is there", nil, nil, ""},
		{"heads of lanes", []string{"a", "b"}, nil, "send a, send b"},
		{"as many as the window", []string{"a", "b", "c"}, nil, "send a, send b"},
		{"only the head of a lane", []string{"a", "a"}, nil, "send a"},
		{"as many as there are places", []string{"a", "b"}, func(d *dispatcher) {
			one := free(1)
			d.places = &one
		}, "send a"},
		{"a parked lane that is due", []string{"a"}, func(d *dispatcher) { d.parked(7, 9, now, now) }, "send a, resume p"},
		{"a parked lane that is not due", nil, func(d *dispatcher) { d.parked(7, 9, in(time.Minute), now) }, "again in 1m0s"},
		{"a breaker that waits", []string{"a"}, func(d *dispatcher) { d.breaker = breaker.Opened(in(time.Second), 0) }, "again in 1s"},
		{"a breaker that probes", []string{"a", "b"}, func(d *dispatcher) { d.breaker = breaker.Opened(now, 0) }, "probe a"},
		{"a probe in flight", []string{"a"}, func(d *dispatcher) { d.breaker = breaker.Opened(now, 0).Began() }, ""},
		{"a half-open breaker", []string{"a", "b"}, func(d *dispatcher) { d.breaker = halfOpen(now, 1) }, "probe a"},
		{"a half-open breaker that was quiet", nil, func(d *dispatcher) {
			d.breaker = halfOpen(in(-30*time.Second), 1)
		}, "turned"},
		{"a record to delete needs no endpoint", []string{"a"}, func(d *dispatcher) {
			d.breaker = breaker.Opened(in(time.Second), 0)
			d.parked(9, 8, now, now)
		}, "unpark p, again in 1s"},
		{"a Retry-After", []string{"a"}, func(d *dispatcher) { d.breaker = d.breaker.Hold(in(time.Second)) }, "waits for retry_after, again in 1s"},
		{"a Retry-After that was told", []string{"a"}, func(d *dispatcher) { d.breaker, d.told = d.breaker.Hold(in(time.Second)), in(time.Second) }, "again in 1s"},
		{"a charge beyond the rate", []string{"a", "b"}, func(d *dispatcher) { d.limits = limitsOf(sluice.Rate{PerSecond: 1}) }, "send carefully a, send carefully b, again in 1s"},
		{"a rate that is used up", []string{"a"}, func(d *dispatcher) { d.throttled = in(time.Second) }, "waits for rate, again in 1s"},
		{"a lane that will wait for the rate is told of when it is due", nil, func(d *dispatcher) {
			d.throttled = in(time.Minute)
			d.parked(7, 9, in(time.Second), now)
		}, "again in 1s"},
		{"a gate that could not decide", []string{"a"}, func(d *dispatcher) { d.backOffGate(now) }, "again in 100ms"},
		{"an agreed pace", []string{"a", "b"}, func(d *dispatcher) {
			d.pacer, d.sub.Agreed = &onePace{}, &sluice.Agreement{RatePerMinute: 1}
		}, "send carefully a, waits for rate, again in 1m0s"},
		{"a rate that others share", []string{"a", "b"}, func(d *dispatcher) {
			sub := *d.sub
			d.pacer, sub.Policy.Rate = &onePace{}, sluice.Rate{PerSecond: 1000, Key: "k"}
			d.adopt(&sub, sluice.Rate{}, false)
		}, "send carefully a, waits for rate, again in 1m0s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d := newDispatcher(c.keys...)
			if c.given != nil {
				c.given(d)
			}
			p := d.decide(now)
			require.Equal(t, c.want, p.text(now))
			again := d.decide(now)
			require.Empty(t, again.tasks, "what was decided is not decided again")
			require.Empty(t, again.waits)
		})
	}
}

func TestLimits_SharedRateHasNoBucketsOfItsOwn(t *testing.T) {
	t.Parallel()
	require.Len(t, limitsOf(sluice.Rate{PerSecond: 1, PerMinute: 1}), 2)
	require.Empty(t, limitsOf(sluice.Rate{PerSecond: 1, PerMinute: 1, Key: "k"}))
}

// The pace of an endpoint that is not used is given back.
func TestDispatcher_GivesAnUnusedPaceBack(t *testing.T) {
	t.Parallel()
	d, p := newDispatcher(), &onePace{}
	d.pacer, d.sub.Agreed = p, &sluice.Agreement{RatePerMinute: 1}
	is := d.decide(time.Unix(1, 0))
	require.Empty(t, is.tasks)
	require.Equal(t, 1, p.returned)
}

// What came of a task decides what starts next.
func TestDispatcher_EntersResults(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	entry := func(from uint64, at time.Time) park {
		return park{ParkedEntry: model.ParkedEntry{Parked: sluice.Parked{Lane: "a", FromSeq: from, NextAt: at}}}
	}
	for _, c := range []struct {
		name string
		res  result
		acks int
		want string
	}{
		{"delivered", result{kind: resultSettled}, 1, "send a"},
		{"not sent", result{kind: resultBlocked}, 0, "send a"},
		{"failed", result{kind: resultParked, park: entry(1, now.Add(time.Minute))}, 2, "again in 1m0s"},
		{"parked and due", result{kind: resultParked, park: entry(1, now)}, 2, "resume a"},
	} {
		d := newDispatcher("a", "a")
		p := d.decide(now)
		res := c.res
		res.lane = p.tasks[0].lane
		require.Len(t, d.enter(&res, now), c.acks, c.name)
		p = d.decide(now)
		require.Equal(t, c.want, p.text(now), c.name)
	}
}
