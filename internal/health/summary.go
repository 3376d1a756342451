package health

import (
	"context"
	"time"

	"github.com/sluice-io/sluice/internal/rollup"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// told is the time after the end of a minute by which all replicas have reported its attempts.
const told = 20 * time.Second

// SumQuery selects subscriptions; empty fields select all.
type SumQuery struct {
	Namespace string
	Visible   func(*sluice.Subscription) bool
}

// Sum sums up the deliveries of subscriptions. Its callers share views, as those of List do.
func (o *Overview) Sum(ctx context.Context, q SumQuery) (sluice.Overview, error) {
	v, err := o.look(ctx)
	if err != nil {
		return sluice.Overview{}, err
	}
	o.census.take(ctx, v, o.deps.Store)
	s := summing{o: sluice.Overview{
		At: v.at.UTC(), Subscriptions: map[sluice.Health]int{}, Consumers: map[sluice.WakeState]int{}, Backlog: sluice.OverviewBacklog{Complete: true},
	}, began: map[string]int64{}}
	s.o.DeadLetters.Counted = v.counted
	for k := range v.visible(q.Namespace, q.Visible) {
		s.add(k, v.at)
		events, known := o.census.of(k, v.at)
		s.o.Backlog.Events += events
		s.o.Backlog.Complete = s.o.Backlog.Complete && known
	}
	s.hour()
	s.o.DeadLetters.ByReason = o.census.reasons(s.began)
	var sees func(string, int64) bool
	if q.Namespace != "" || q.Visible != nil {
		sees = func(id string, began int64) bool { at, is := s.began[id]; return is && at == began }
	}
	s.minutes(o.deps.Minutes(sees), v.at)
	return s.o, nil
}

// summing is a sum under construction.
type summing struct {
	o      sluice.Overview
	counts rollup.Counts
	began  map[string]int64 // creation times of the subscriptions, by ID
}

// add adds a subscription.
func (s *summing) add(k *known, now time.Time) {
	o, f := &s.o, &k.facts
	s.began[k.sub.ID] = k.sub.CreatedAt.UnixMilli()
	o.Subscriptions[k.health]++
	switch f.Breaker {
	case sluice.BreakerOpen:
		o.Breakers.Open++
	case sluice.BreakerHalfOpen:
		o.Breakers.HalfOpen++
	case sluice.BreakerClosed:
	}
	o.Lanes.Parked, o.Lanes.Held, o.Lanes.Due = o.Lanes.Parked+f.Parked, o.Lanes.Held+f.Held, o.Lanes.Due+k.stand.Due
	o.DeadLetters.Total += f.DeadLetters
	o.Replays += k.stand.Replays
	for state, n := range k.stand.Consumers {
		o.Consumers[state] += n
	}
	if at := k.stand.Oldest; !at.IsZero() && (o.Oldest == nil || at.Before(o.Oldest.At)) {
		o.Oldest = &sluice.Undelivered{At: at.UTC(), AgeSeconds: now.Sub(at).Seconds(), Subscription: k.sub.ID, Namespace: k.sub.Namespace}
	}
	if k.counts != nil {
		s.counts.Sum(k.counts)
	}
}

// hour sets the attempts of the last hour.
func (s *summing) hour() {
	p := pointOf(rollup.Point{Counts: s.counts})
	s.o.LastHour = sluice.OverviewHour{Delivered: p.Delivered, Failed: p.Failed, Failures: s.counts.ByClass(), P50: p.P50, P95: p.P95, P99: p.P99}
}

// minutes sets the attempts by minute.
func (s *summing) minutes(all []rollup.Minute, now time.Time) {
	s.o.Minutes = make([]sluice.MinuteOf, len(all))
	last := now.Add(-told).Truncate(time.Minute).Add(-time.Minute)
	s.o.Rates.Minute = last.UTC()
	for i, m := range all {
		s.o.Minutes[i] = sluice.MinuteOf{At: m.At, Delivered: m.Delivered, Failed: m.Failed}
		if m.At.Equal(last) {
			s.o.Rates.Attempts, s.o.Rates.Deliveries = float64(m.Delivered+m.Failed)/60, float64(m.Delivered)/60
		}
	}
}
