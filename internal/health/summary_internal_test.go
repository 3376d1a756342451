package health

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/rollup"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// office is a store in which seven events wait for each subscription, and its clock.
type office struct {
	now     time.Time
	subs    []*sluice.Subscription
	hour    rollup.Hour
	reasons map[string]map[sluice.Reason]uint64
	slow    time.Duration // a look takes that long
	looks   int
	asked   atomic.Int64 // for a backlog
}

func (*office) Healths(context.Context) (map[string]model.StoredHealth, error) { return nil, nil } //nolint:nilnil // all are well

func (*office) DeadLetterGauges(_ context.Context, created model.Created) (model.DeadLetterGauges, error) {
	all := model.DeadLetterGauges{Of: []model.SubscriptionLetters{}}
	for i, namespace := range []string{"n1", "n0"} { // s1 is of n1, and there was one of n0
		if _, is := created(namespace, "s1"); is {
			all.Of = append(all.Of, model.SubscriptionLetters{Namespace: namespace, Subscription: "s1", Letters: uint64(3 + i)})
		}
	}
	return all, nil
}

func (o *office) DeadLetterReasons(context.Context, model.Created) (map[string]map[sluice.Reason]uint64, error) {
	return o.reasons, nil
}

func (o *office) Brief(context.Context, *sluice.Subscription) (sluice.Status, error) {
	o.asked.Add(1)
	return sluice.Status{Backlog: 6, Parked: 1}, nil
}

func (*office) LastAttempt(context.Context, *sluice.Subscription) (*sluice.Attempt, error) {
	return nil, nil //nolint:nilnil // there is none
}

// newOffice has subscriptions that are paused.
func newOffice(n int) (*office, *Overview) {
	o := &office{now: time.Unix(6_000_030, 0)}
	for i := range n {
		o.subs = append(o.subs, &sluice.Subscription{ID: fmt.Sprint("s", i), Namespace: fmt.Sprint("n", i%2), Mode: sluice.Push, Lifecycle: sluice.Lifecycle{State: sluice.Paused, CreatedAt: time.Unix(1, 0)}})
	}
	return o, New(Deps{
		Store: o, Now: func() time.Time { return o.now }, Hour: func() rollup.Hour { return o.hour },
		Subscriptions: func(context.Context) ([]*sluice.Subscription, error) {
			o.looks++
			o.now = o.now.Add(o.slow)
			return o.subs, nil
		},
		Minutes: func(sees func(string, int64) bool) []rollup.Minute {
			m := rollup.Minute{At: o.now.Truncate(time.Minute).Add(-time.Minute)}
			for _, sub := range o.subs {
				if sees == nil || sees(sub.ID, sub.CreatedAt.UnixMilli()) {
					m.Delivered, m.Failed = m.Delivered+60, m.Failed+30
				}
			}
			return []rollup.Minute{m}
		},
	})
}

func TestSum_AddsUpTheVisible(t *testing.T) {
	t.Parallel()
	o, all := newOffice(3)
	o.hour.Standings = map[string]rollup.Standing{
		"s0": {Parked: 2, Held: 1, Due: 1, Oldest: o.now.Add(-time.Hour), Breaker: sluice.BreakerOpen, Replays: 1},
		"s1": {Oldest: o.now.Add(-time.Minute), Breaker: sluice.BreakerHalfOpen}, "s2": {Consumers: map[sluice.WakeState]int{sluice.WakeLive: 4}},
	}
	o.reasons = map[string]map[sluice.Reason]uint64{"s1": {sluice.Exhausted: 3}, "s9": {sluice.Expired: 1}}
	o.now = o.now.Truncate(time.Minute).Add(30 * time.Second)
	sum, err := all.Sum(t.Context(), SumQuery{})
	require.NoError(t, err)
	require.Equal(t, "s0", sum.Oldest.Subscription)
	require.InDelta(t, 3600, sum.Oldest.AgeSeconds, 60)
	require.Equal(t, sluice.OverviewBacklog{Events: 21, Complete: true}, sum.Backlog)
	require.Equal(t, sluice.OverviewLanes{Parked: 2, Held: 1, Due: 1}, sum.Lanes)
	require.Equal(t, sluice.OverviewBreakers{Open: 1, HalfOpen: 1}, sum.Breakers)
	require.Equal(t, sluice.OverviewDead{Total: 3, ByReason: map[sluice.Reason]uint64{sluice.Exhausted: 3}, Counted: true}, sum.DeadLetters)
	require.Equal(t, map[sluice.WakeState]int{sluice.WakeLive: 4}, sum.Consumers)
	require.Equal(t, map[sluice.Health]int{sluice.HealthPaused: 3}, sum.Subscriptions)
	require.InDelta(t, 3*1.5, sum.Rates.Attempts, 0.001)
	require.InDelta(t, 3, sum.Rates.Deliveries, 0.001)
	require.Equal(t, 1, sum.Replays)

	sum, err = all.Sum(t.Context(), SumQuery{Namespace: "n1"})
	require.NoError(t, err)
	require.Equal(t, "s1", sum.Oldest.Subscription)
	require.InDelta(t, 1, sum.Rates.Deliveries, 0.001)
	sum, err = all.Sum(t.Context(), SumQuery{Visible: func(*sluice.Subscription) bool { return false }})
	require.NoError(t, err)
	require.Nil(t, sum.Oldest)
	require.Zero(t, sum.Backlog.Events+sum.DeadLetters.Total)
	require.Empty(t, sum.DeadLetters.ByReason)
	require.Equal(t, 1, o.looks, "they share a look")
}

// A slow look is shared for longer than a fast one, but its figures are never older than ten seconds.
func TestLook_IsSharedForTenSecondsAtMost(t *testing.T) {
	t.Parallel()
	for slow, shared := range map[time.Duration]time.Duration{0: fresh, 20 * time.Millisecond: 5 * time.Second, time.Second: 10 * time.Second} {
		o, all := newOffice(1)
		o.slow = slow
		for i, wait := range []time.Duration{0, shared - time.Millisecond, time.Millisecond} {
			o.now = o.now.Add(wait)
			_, err := all.Sum(t.Context(), SumQuery{})
			require.NoError(t, err)
			require.Equal(t, []int{1, 1, 2}[i], o.looks, slow)
		}
	}
}

func TestCensus_CountsAgainAfterAWhile(t *testing.T) {
	t.Parallel()
	o, all := newOffice(3)
	for _, want := range []int{3, 3, 6} {
		_, err := all.Sum(t.Context(), SumQuery{})
		require.NoError(t, err)
		require.EqualValues(t, want, o.asked.Load())
		o.now = o.now.Add(recount / 2)
	}
}

func TestCensus_CountsAFewAtALook(t *testing.T) {
	t.Parallel()
	o, all := newOffice(3*atALook + 1)
	for look := 1; look <= 4; look++ {
		sum, err := all.Sum(t.Context(), SumQuery{})
		require.NoError(t, err)
		require.Equal(t, look == 4, sum.Backlog.Complete, look)
		require.EqualValues(t, 7*min(look*atALook, len(o.subs)), sum.Backlog.Events)
		o.now = o.now.Add(2 * time.Second)
	}
	o.subs[0].State = sluice.Active
	sum, err := all.Sum(t.Context(), SumQuery{})
	require.NoError(t, err)
	require.EqualValues(t, 7*(len(o.subs)-1), sum.Backlog.Events, "no sign of waiting events")
}

func TestStatistics_AreOfADay(t *testing.T) {
	t.Parallel()
	o, all := newOffice(1)
	var since time.Time
	all.deps.Series = func(_ *sluice.Subscription, from time.Time, _ time.Duration) []rollup.Point {
		since = from
		return []rollup.Point{{At: from}, {Counts: rollup.Counts{Delivered: 1, Durations: [12]uint32{0, 0, 1}}}}
	}
	for step, want := range map[string]time.Duration{"": 24*time.Hour - time.Minute, "1h": 24*time.Hour - time.Minute, "1m": 59 * time.Minute} {
		s, err := all.Statistics(o.subs[0], time.Time{}, step)
		require.NoError(t, err)
		require.Equal(t, o.now.Add(-want), since, step)
		require.Nil(t, s.Points[0].P50)
		require.InDelta(t, 25, *s.Points[1].P99, 1)
	}
	_, err := all.Statistics(o.subs[0], o.now.Add(time.Hour), "5m")
	require.NoError(t, err)
	require.Equal(t, o.now, since)
	_, err = all.Statistics(o.subs[0], o.now, "7m")
	require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(err))
}
