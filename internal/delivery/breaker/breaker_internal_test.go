package breaker

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// drill drives a breaker with a clock of its own.
type drill struct {
	b      Breaker
	window int
	now    time.Time
}

func newDrill(window int) *drill { return &drill{window: window, now: time.Unix(1_800_000_000, 0)} }

func (d *drill) pass(by time.Duration) { d.now = d.now.Add(by) }

// send makes a request that is answered at once.
func (d *drill) send(lane string, s Outcome) {
	d.b = d.b.Began().Ended(Answer{Epoch: d.b.epoch, Lane: lane, Outcome: s, Began: d.now}, d.window, d.now, 0.5)
}

// fail lets requests fail, evenly spread over a time.
func (d *drill) fail(n, lanes int, over time.Duration) {
	began := d.now
	for i := range n {
		d.now = began.Add(over * time.Duration(i) / time.Duration(n-1))
		d.send(fmt.Sprint("lane", i%lanes), Trouble)
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
			d.send("lane0", Well)
			d.fail(9, 3, 5*time.Second)
		}, false},
		{"an event that was refused in between", func(d *drill) {
			d.fail(9, 3, 5*time.Second)
			d.send("lane0", Well)
			d.send("lane0", Trouble)
		}, false},
		{"requests that were never made", func(d *drill) {
			for i := range 100 {
				d.pass(time.Second)
				d.send(strconv.Itoa(i), Nothing)
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
		s := Well
		if i%10 < failing {
			s = Trouble
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
			d.b = d.b.Began().Ended(Answer{
				Epoch: d.b.epoch, Lane: strconv.Itoa(i), Outcome: Trouble, Began: d.now.Add(-15 * time.Second),
			}, d.window, d.now, 0.5)
		}
		return d.b.state
	}
	require.Equal(t, sluice.BreakerOpen, slow(newDrill(64)))
	worked := newDrill(64)
	worked.send("quick", Well)
	worked.pass(time.Second)
	require.NotEqual(t, sluice.BreakerOpen, slow(worked))
}

func TestBreaker_SpacesProbesFromOneToThirtySeconds(t *testing.T) {
	t.Parallel()
	d := newDrill(64).opened()
	var pauses []time.Duration
	for range 7 {
		may, at := d.b.Admits(d.now)
		require.Equal(t, None, may)
		pauses = append(pauses, at.Sub(d.now))
		d.now = at
		may, _ = d.b.Admits(d.now)
		require.Equal(t, Probe, may)
		d.b = d.b.Began()
		may, at = d.b.Admits(d.now)
		require.Equal(t, None, may, "one probe at a time")
		require.Zero(t, at, "its answer is waited for")
		d.b = d.b.Ended(Answer{Epoch: d.b.epoch, Lane: "a", Outcome: Trouble}, d.window, d.now, 0.5)
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
		if may, _ := d.b.Admits(d.now); may == None || d.b.Closed() {
			break
		}
		d.b = d.b.Began()
		n++
	}
	for range n {
		d.b = d.b.Ended(Answer{Epoch: d.b.epoch, Lane: "a", Outcome: Well}, d.window, d.now, 0.5)
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
		require.True(t, d.b.Closed())
	}
}

func TestBreaker_HalfOpenTroubleOpensForLonger(t *testing.T) {
	t.Parallel()
	d := newDrill(64).opened()
	d.pass(time.Second)
	d.round()
	epoch := d.b.epoch
	d.send("b", Trouble)
	require.Equal(t, sluice.BreakerOpen, d.b.state)
	require.Greater(t, d.b.epoch, epoch)
	require.Equal(t, 2*time.Second, d.b.probeAt.Sub(d.now))
	d.pass(2 * time.Second)
	for range 4 { // the probe, 1, 2, 4
		d.round()
	}
	require.Equal(t, 8, d.b.limit)
	for range 3 {
		d.send("c", Trouble)
		require.Equal(t, sluice.BreakerHalfOpen, d.b.state, "some of a round say little")
	}
	d.send("c", Trouble)
	require.Equal(t, sluice.BreakerOpen, d.b.state)
}

// A lane that fails while others succeed has a trouble of its own.
func TestBreaker_SingleFailingLaneDoesNotKeepItOpen(t *testing.T) {
	t.Parallel()
	d := newDrill(8).opened()
	d.pass(time.Second)
	mark := d.b.Mark()
	d.send("poison", Trouble)
	require.False(t, d.b.IsCurrent(mark), "nothing was well since")
	d.pass(2 * time.Second)
	d.round()
	require.True(t, d.b.IsCurrent(mark))
	d.b = d.b.Began().Ended(Answer{Epoch: d.b.epoch, Lane: "poison", Outcome: Trouble, Own: true}, d.window, d.now, 0.5)
	require.Equal(t, sluice.BreakerHalfOpen, d.b.state)
	require.Zero(t, d.b.under)
	require.False(t, newDrill(8).opened().b.IsCurrent(mark), "it was another spell")
	require.False(t, d.b.IsCurrent(Mark{}), "it was never spared")
}

func TestBreaker_IgnoresAnswersToEarlierRequests(t *testing.T) {
	t.Parallel()
	d := newDrill(64)
	before := d.b.epoch
	d.opened()
	for _, s := range []Outcome{Well, Trouble, Nothing} {
		require.Equal(t, d.b, d.b.Ended(Answer{Epoch: before, Lane: "a", Outcome: s}, d.window, d.now, 0.5))
	}
}

func TestBreaker_UnusedProbeIsFollowedByAnother(t *testing.T) {
	t.Parallel()
	d := newDrill(64).opened()
	d.pass(time.Second)
	d.send("a", Nothing)
	may, _ := d.b.Admits(d.now)
	require.Equal(t, Probe, may)
}

func TestBreaker_HalfOpenWithoutWaitersCloses(t *testing.T) {
	t.Parallel()
	d := newDrill(64).opened()
	d.pass(time.Second)
	d.round()
	require.Equal(t, sluice.BreakerHalfOpen, d.b.Settle(d.now.Add(quietCloses-1)).state)
	require.Equal(t, sluice.BreakerHalfOpen, d.b.Began().Settle(d.now.Add(quietCloses)).state, "something is under way")
	require.True(t, d.b.Settle(d.now.Add(quietCloses)).Closed())
}

func TestBreaker_RetryAfterHoldsAllWithoutOpening(t *testing.T) {
	t.Parallel()
	d := newDrill(64)
	asks := func(wait time.Duration) {
		d.b = d.b.Began().Ended(Answer{Epoch: d.b.epoch, Lane: "a", Outcome: Trouble, Wait: wait, Began: d.now}, d.window, d.now, 0.5)
	}
	asks(time.Minute)
	asks(time.Second) // it does not shorten what was asked before
	may, at := d.b.Admits(d.now)
	require.Equal(t, None, may)
	require.Equal(t, d.now.Add(time.Minute), at)
	require.True(t, d.b.Closed())
	may, _ = d.b.Admits(at)
	require.Equal(t, All, may)
	asks(24 * time.Hour)
	_, at = d.b.Admits(d.now)
	require.Equal(t, d.now.Add(time.Hour), at)

	d.opened()
	_, at = d.b.Admits(d.now)
	require.Greater(t, at.Sub(d.now), 50*time.Minute, "a probe waits for it too")
}

func TestBreaker_NewEndpointBeginsClosed(t *testing.T) {
	t.Parallel()
	d := newDrill(64).opened()
	d.b.held = d.now.Add(time.Hour)
	epoch := d.b.epoch
	d.b = d.b.Reset()
	may, _ := d.b.Admits(d.now)
	require.Equal(t, All, may)
	require.Greater(t, d.b.epoch, epoch)

	began := d.b.epoch
	asked := Answer{Epoch: began, Lane: "a", Outcome: Trouble, Wait: time.Hour, Began: d.now}
	d.b = d.b.Began().Reset()
	require.Zero(t, d.b.Ended(asked, d.window, d.now, 0.5).Held(), "the wait of the endpoint before")
	asked.Epoch = d.b.epoch
	d.b = d.b.Began().open(d.now)
	require.Equal(t, d.now.Add(time.Hour), d.b.Ended(asked, d.window, d.now, 0.5).Held(), "of this one, though it opened since")
}

// random is a drill whose requests overlap and are answered in any order.
type random struct {
	*drill

	under    []Answer
	troubled map[string]bool // lanes, since it was last closed anew
	began    time.Time       // when that was
}

// step makes a request, or answers one.
func (r *random) step(rt *rapid.T) {
	r.pass(time.Duration(rapid.IntRange(0, 2000).Draw(rt, "ms")) * time.Millisecond)
	may, at := r.b.Admits(r.now)
	require.True(rt, may == None || at.IsZero())
	require.True(rt, at.IsZero() || at.After(r.now), "it is not asked again and again")
	switch {
	case may != None && len(r.under) < r.window && rapid.Bool().Draw(rt, "ask"):
		lane := rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(rt, "lane")
		r.under = append(r.under, Answer{Epoch: r.b.epoch, Lane: lane, Began: r.now})
		r.b = r.b.Began()
	case len(r.under) > 0:
		r.answer(rt)
	}
}

func (r *random) answer(rt *rapid.T) {
	i := rapid.IntRange(0, len(r.under)-1).Draw(rt, "which")
	a := r.under[i]
	r.under = append(r.under[:i], r.under[i+1:]...)
	a.Outcome = rapid.SampledFrom([]Outcome{Trouble, Trouble, Trouble, Well, Nothing}).Draw(rt, "says")
	if a.Outcome == Trouble {
		r.troubled[a.Lane] = true
	}
	before := r.b
	r.b = r.b.Ended(a, r.window, r.now, rapid.Float64Range(0, 0.999).Draw(rt, "random"))
	if before.Closed() && r.b.state == sluice.BreakerOpen {
		require.GreaterOrEqual(rt, len(r.troubled), troubleLanes)
		require.GreaterOrEqual(rt, r.now.Sub(r.began), troubleLasts)
	}
	if !before.Closed() && r.b.Closed() {
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
	case d.b.Closed():
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
func (d *drill) recovers(rt *rapid.T, under []Answer) {
	for _, a := range under {
		a.Outcome = Nothing
		d.b = d.b.Ended(a, d.window, d.now, 0.5)
	}
	d.pass(2 * longestPause)
	for range 9 {
		d.round()
	}
	require.True(rt, d.b.Closed())
}
