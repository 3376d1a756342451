package delivery

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// drill drives a breaker with a clock of its own.
type drill struct {
	b      breaker
	window int
	now    time.Time
}

func newDrill(window int) *drill { return &drill{window: window, now: time.Unix(1_800_000_000, 0)} }

func (d *drill) pass(by time.Duration) { d.now = d.now.Add(by) }

// send makes a request that is answered at once.
func (d *drill) send(lane string, s outcomeClass) {
	d.b = d.b.began().ended(answer{epoch: d.b.epoch, lane: lane, said: s, began: d.now}, d.window, d.now, 0.5)
}

// fail lets requests fail, evenly spread over a time.
func (d *drill) fail(n, lanes int, over time.Duration) {
	began := d.now
	for i := range n {
		d.now = began.Add(over * time.Duration(i) / time.Duration(n-1))
		d.send(fmt.Sprint("lane", i%lanes), saidTrouble)
	}
}

func (d *drill) opened() *drill {
	d.fail(streakLength, troubleLanes, troubleLasts)
	return d
}

func TestBreaker_OpensOnLastingTroubleInSeveralLanes(t *testing.T) { // issue 3, item 3
	t.Parallel()
	tests := []struct {
		name  string
		give  func(*drill)
		opens bool
	}{
		{"a streak", func(d *drill) { d.fail(10, 3, 5*time.Second) }, true},
		{"nine failures", func(d *drill) { d.fail(9, 3, time.Minute) }, false},
		{"two poison lanes, for long", func(d *drill) { d.fail(1000, 2, 10*time.Minute) }, false},
		{"many failures within a moment", func(d *drill) { d.fail(500, 20, 4*time.Second) }, false},
		{"a success in between", func(d *drill) {
			d.fail(9, 3, 5*time.Second)
			d.send("lane0", saidWell)
			d.fail(9, 3, 5*time.Second)
		}, false},
		{"an event that was refused in between", func(d *drill) {
			d.fail(9, 3, 5*time.Second)
			d.send("lane0", saidWell)
			d.send("lane0", saidTrouble)
		}, false},
		{"requests that were never made", func(d *drill) {
			for i := range 100 {
				d.pass(time.Second)
				d.send(strconv.Itoa(i), saidNothing)
			}
		}, false},
		{"nine of ten, for six seconds", func(d *drill) { d.mixed(10, 107, 100*time.Millisecond, 9) }, true},
		{"many failures at once, and an endpoint that is well when they are tried again", func(d *drill) {
			d.fail(2000, 2000, time.Second)
			d.pass(4 * time.Second)
			d.mixed(200, 200, time.Millisecond, 1)
		}, false},
		{"nine of ten, of few attempts", func(d *drill) { d.mixed(10, 40, time.Second, 9) }, false},
		{"nine of ten, for three seconds", func(d *drill) { d.mixed(10, 80, 40*time.Millisecond, 9) }, false},
		{"eight of ten", func(d *drill) { d.mixed(10, 400, 100*time.Millisecond, 8) }, false},
		{"nine of ten, in two lanes", func(d *drill) { d.mixed(2, 400, 100*time.Millisecond, 9) }, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := newDrill(64)
			tt.give(d)
			require.Equal(t, tt.opens, d.b.state == sluice.BreakerOpen)
		})
	}
}

// mixed lets so many of ten fail, the last of the ten first of all being well.
func (d *drill) mixed(lanes, n int, every time.Duration, failing int) {
	for i := range n {
		s := saidWell
		if i%10 < failing {
			s = saidTrouble
		}
		d.send(fmt.Sprint("lane", i%lanes), s)
		d.pass(every)
	}
}

// Timeouts tell late: the trouble began when the requests were made, but not before the
// endpoint last worked.
func TestBreaker_TimeoutIsTroubleSinceItsRequest(t *testing.T) {
	t.Parallel()
	slow := func(d *drill) sluice.Breaker {
		for i := range streakLength {
			d.b = d.b.began().ended(answer{
				epoch: d.b.epoch, lane: strconv.Itoa(i), said: saidTrouble, began: d.now.Add(-15 * time.Second),
			}, d.window, d.now, 0.5)
		}
		return d.b.state
	}
	require.Equal(t, sluice.BreakerOpen, slow(newDrill(64)))
	worked := newDrill(64)
	worked.send("quick", saidWell)
	worked.pass(time.Second)
	require.NotEqual(t, sluice.BreakerOpen, slow(worked))
}

func TestBreaker_SpacesProbesFromOneToThirtySeconds(t *testing.T) {
	t.Parallel()
	d := newDrill(64).opened()
	var pauses []time.Duration
	for range 7 {
		may, at := d.b.admits(d.now)
		require.Equal(t, passNone, may)
		pauses = append(pauses, at.Sub(d.now))
		d.now = at
		may, _ = d.b.admits(d.now)
		require.Equal(t, passProbe, may)
		d.b = d.b.began()
		may, at = d.b.admits(d.now)
		require.Equal(t, passNone, may, "one probe at a time")
		require.Zero(t, at, "its answer is waited for")
		d.b = d.b.ended(answer{epoch: d.b.epoch, lane: "a", said: saidTrouble}, d.window, d.now, 0.5)
	}
	require.Equal(t, []time.Duration{
		time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 30 * time.Second, 30 * time.Second,
	}, pauses)

	early, late := d.b.wait(d.now, 0), d.b.wait(d.now, 1)
	require.Equal(t, 27*time.Second, early.probeAt.Sub(d.now).Round(time.Millisecond))
	require.Equal(t, 33*time.Second, late.probeAt.Sub(d.now).Round(time.Millisecond))
}

// well answers as many requests as are allowed at once, and returns how many that were.
func (d *drill) round() int {
	n := 0
	for {
		if may, _ := d.b.admits(d.now); may == passNone || d.b.closed() {
			break
		}
		d.b = d.b.began()
		n++
	}
	for range n {
		d.b = d.b.ended(answer{epoch: d.b.epoch, lane: "a", said: saidWell}, d.window, d.now, 0.5)
	}
	return n
}

func TestBreaker_RecoveryGrowsWithEachRound(t *testing.T) {
	t.Parallel()
	for window, want := range map[int][]int{1: {1, 0}, 8: {1, 1, 2, 4, 0}, 64: {1, 1, 2, 4, 8, 16, 32, 0}, 5: {1, 1, 2, 4, 0}} {
		d := newDrill(window).opened()
		d.pass(time.Second)
		var rounds []int
		for range want {
			rounds = append(rounds, d.round())
		}
		require.Equal(t, want, rounds, "the probe, then the rounds, with the window %d", window)
		require.True(t, d.b.closed())
	}
}

func TestBreaker_HalfOpenTroubleOpensForLonger(t *testing.T) {
	t.Parallel()
	d := newDrill(64).opened()
	d.pass(time.Second)
	d.round()
	epoch := d.b.epoch
	d.send("b", saidTrouble)
	require.Equal(t, sluice.BreakerOpen, d.b.state)
	require.Greater(t, d.b.epoch, epoch)
	require.Equal(t, 2*time.Second, d.b.probeAt.Sub(d.now))
	d.pass(2 * time.Second)
	for range 4 { // the probe, 1, 2, 4
		d.round()
	}
	require.Equal(t, 8, d.b.limit)
	for range 3 {
		d.send("c", saidTrouble)
		require.Equal(t, sluice.BreakerHalfOpen, d.b.state, "some of a round say little")
	}
	d.send("c", saidTrouble)
	require.Equal(t, sluice.BreakerOpen, d.b.state)
}

// A lane that fails while others succeed has a trouble of its own.
func TestBreaker_SingleFailingLaneDoesNotKeepItOpen(t *testing.T) {
	t.Parallel()
	d := newDrill(8).opened()
	d.pass(time.Second)
	mark := d.b.mark()
	d.send("poison", saidTrouble)
	require.False(t, d.b.isCurrent(mark), "nothing was well since")
	d.pass(2 * time.Second)
	d.round()
	require.True(t, d.b.isCurrent(mark))
	d.b = d.b.began().ended(answer{epoch: d.b.epoch, lane: "poison", said: saidTrouble, own: true}, d.window, d.now, 0.5)
	require.Equal(t, sluice.BreakerHalfOpen, d.b.state)
	require.Zero(t, d.b.under)
	require.False(t, newDrill(8).opened().b.isCurrent(mark), "it was another spell")
	require.False(t, d.b.isCurrent(probeMark{}), "it was never spared")
}

func TestBreaker_IgnoresAnswersToEarlierRequests(t *testing.T) {
	t.Parallel()
	d := newDrill(64)
	before := d.b.epoch
	d.opened()
	for _, s := range []outcomeClass{saidWell, saidTrouble, saidNothing} {
		require.Equal(t, d.b, d.b.ended(answer{epoch: before, lane: "a", said: s}, d.window, d.now, 0.5))
	}
}

func TestBreaker_UnusedProbeIsFollowedByAnother(t *testing.T) {
	t.Parallel()
	d := newDrill(64).opened()
	d.pass(time.Second)
	d.send("a", saidNothing)
	may, _ := d.b.admits(d.now)
	require.Equal(t, passProbe, may)
}

func TestBreaker_HalfOpenWithoutWaitersCloses(t *testing.T) {
	t.Parallel()
	d := newDrill(64).opened()
	d.pass(time.Second)
	d.round()
	require.Equal(t, sluice.BreakerHalfOpen, d.b.settle(d.now.Add(quietCloses-1)).state)
	require.Equal(t, sluice.BreakerHalfOpen, d.b.began().settle(d.now.Add(quietCloses)).state, "something is under way")
	require.True(t, d.b.settle(d.now.Add(quietCloses)).closed())
}

func TestBreaker_RetryAfterHoldsAllWithoutOpening(t *testing.T) {
	t.Parallel()
	d := newDrill(64)
	asks := func(wait time.Duration) {
		d.b = d.b.began().ended(answer{epoch: d.b.epoch, lane: "a", said: saidTrouble, wait: wait, began: d.now}, d.window, d.now, 0.5)
	}
	asks(time.Minute)
	asks(time.Second) // it does not shorten what was asked before
	may, at := d.b.admits(d.now)
	require.Equal(t, passNone, may)
	require.Equal(t, d.now.Add(time.Minute), at)
	require.True(t, d.b.closed())
	may, _ = d.b.admits(at)
	require.Equal(t, passAll, may)
	asks(24 * time.Hour)
	_, at = d.b.admits(d.now)
	require.Equal(t, d.now.Add(time.Hour), at)

	d.opened()
	_, at = d.b.admits(d.now)
	require.Greater(t, at.Sub(d.now), 50*time.Minute, "a probe waits for it too")
}

func TestBreaker_NewEndpointBeginsClosed(t *testing.T) {
	t.Parallel()
	d := newDrill(64).opened()
	d.b.held = d.now.Add(time.Hour)
	epoch := d.b.epoch
	d.b = d.b.reset()
	may, _ := d.b.admits(d.now)
	require.Equal(t, passAll, may)
	require.Greater(t, d.b.epoch, epoch)
}

func TestBreaker_ResumesFromItsRecord(t *testing.T) {
	t.Parallel()
	d := newDrill(64).opened()
	for range 3 {
		_, d.now = d.b.admits(d.now)
		d.send("a", saidTrouble)
	}
	r := &runner{dispatcher: dispatcher{breaker: d.b, sub: &sluice.Subscription{}}}
	b := breakerOf(r.health(d.now))
	require.Equal(t, sluice.BreakerOpen, b.state)
	require.True(t, b.probeAt.Equal(d.b.probeAt))
	require.Equal(t, 16*time.Second, b.next())
	require.True(t, breakerOf(model.Health{}).closed())
	require.Equal(t, sluice.BreakerOpen, breakerOf(model.Health{Breaker: sluice.BreakerHalfOpen}).state)
}

// random is a drill whose requests overlap and are answered in any order.
type random struct {
	*drill

	under    []answer
	troubled map[string]bool // lanes, since it was last closed anew
	began    time.Time       // when that was
}

// step makes a request, or answers one.
func (r *random) step(rt *rapid.T) {
	r.pass(time.Duration(rapid.IntRange(0, 2000).Draw(rt, "ms")) * time.Millisecond)
	may, at := r.b.admits(r.now)
	require.True(rt, may == passNone || at.IsZero())
	require.True(rt, at.IsZero() || at.After(r.now), "it is not asked again and again")
	switch {
	case may != passNone && len(r.under) < r.window && rapid.Bool().Draw(rt, "ask"):
		lane := rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(rt, "lane")
		r.under = append(r.under, answer{epoch: r.b.epoch, lane: lane, began: r.now})
		r.b = r.b.began()
	case len(r.under) > 0:
		r.answer(rt)
	}
}

func (r *random) answer(rt *rapid.T) {
	i := rapid.IntRange(0, len(r.under)-1).Draw(rt, "which")
	a := r.under[i]
	r.under = append(r.under[:i], r.under[i+1:]...)
	a.said = rapid.SampledFrom([]outcomeClass{saidTrouble, saidTrouble, saidTrouble, saidWell, saidNothing}).Draw(rt, "says")
	if a.said == saidTrouble {
		r.troubled[a.lane] = true
	}
	before := r.b
	r.b = r.b.ended(a, r.window, r.now, rapid.Float64Range(0, 0.999).Draw(rt, "random"))
	if before.closed() && r.b.state == sluice.BreakerOpen {
		require.GreaterOrEqual(rt, len(r.troubled), troubleLanes)
		require.GreaterOrEqual(rt, r.now.Sub(r.began), troubleLasts)
	}
	if !before.closed() && r.b.closed() {
		r.troubled, r.began = map[string]bool{}, r.now
	}
}

// TestBreaker_KeepsItsBoundsForAnyAnswers looks at what must hold in every state, and that
// an endpoint that is well again gets everything.
func TestBreaker_KeepsItsBoundsForAnyAnswers(t *testing.T) { // issue 3, item 3
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		d := newDrill(rapid.IntRange(1, 64).Draw(rt, "window"))
		r := &random{drill: d, troubled: map[string]bool{}, began: d.now}
		for range rapid.IntRange(1, 400).Draw(rt, "steps") {
			r.step(rt)
			r.check(rt)
		}
		r.recovers(rt, r.under)
	})
}

func (d *drill) check(rt *rapid.T) {
	switch {
	case d.b.closed():
		require.LessOrEqual(rt, d.b.under, d.window)
	case d.b.state == sluice.BreakerOpen:
		require.LessOrEqual(rt, d.b.under, 1)
		require.GreaterOrEqual(rt, d.b.pause, firstPause)
		require.LessOrEqual(rt, d.b.pause, longestPause)
	default:
		require.LessOrEqual(rt, d.b.under, d.b.limit)
		require.Less(rt, d.b.limit, d.window)
	}
}

// recovers checks that an endpoint that is well again soon gets everything.
func (d *drill) recovers(rt *rapid.T, under []answer) {
	for _, a := range under {
		a.said = saidNothing
		d.b = d.b.ended(a, d.window, d.now, 0.5)
	}
	d.pass(2 * longestPause)
	for range 9 {
		d.round()
	}
	require.True(rt, d.b.closed())
}

func TestBook_ProbesALiveHeadOrTheLongestDue(t *testing.T) { // issue 3, item 3
	t.Parallel()
	now := time.Now()
	b := newLaneTable(8)
	for i, key := range []string{"long", "short", "later"} {
		b.load(model.ParkedEntry{Parked: sluice.Parked{
			Lane: key, FromSeq: uint64(i + 1), Attempts: 1, NextAt: now.Add(time.Duration(i-2) * time.Minute),
		}}, 0, now.Add(-time.Hour))
	}
	b.arrive("live", deliveryAt(9))
	_, ok := b.next(now, passNone)
	require.False(t, ok)
	for _, want := range []string{"live", "long", "short", "later"} {
		probe, ok := b.next(now, passProbe)
		require.True(t, ok)
		require.Equal(t, want, probe.lane.key)
		if probe.kind == taskResume {
			probe.park.NextAt = now
			b.resumed(probe.lane, probe.park)
		} else {
			defer b.unblock(probe.lane)
		}
	}
}

func TestBook_DeletesRecordsWhileSendingIsHeld(t *testing.T) {
	t.Parallel()
	now := time.Now()
	b := newLaneTable(8)
	b.load(model.ParkedEntry{Parked: sluice.Parked{Lane: "a", FromSeq: 5}}, 4, now)
	chore, ok := b.next(now, passNone)
	require.True(t, ok)
	require.Equal(t, taskUnpark, chore.kind)
}

func TestBudget_BothRatesHold(t *testing.T) { // issue 3, item 4
	t.Parallel()
	require.Empty(t, limitsOf(sluice.Rate{}))
	both := limitsOf(sluice.Rate{PerSecond: 100, PerMinute: 600})
	require.Len(t, both, 2)
	require.InDelta(t, 100, float64(both[0].Limit()), 1e-9)
	require.Equal(t, 2, both[0].Burst())
	require.InDelta(t, 10, float64(both[1].Limit()), 1e-9)
	require.Equal(t, 12, both[1].Burst())
	require.Equal(t, 1, limitsOf(sluice.Rate{PerMinute: 2})[0].Burst())
}
