package health

import (
	"time"

	"github.com/sluice-io/sluice/internal/rollup"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// steps returns the steps of statistics by name.
func steps() map[string]time.Duration {
	return map[string]time.Duration{"1m": time.Minute, "5m": 5 * time.Minute, "1h": time.Hour}
}

// Statistics returns the attempts of a subscription since a time within the last day, or within the
// last hour for steps of a minute. The zero time selects all of it. Step is 1m, 5m (the default) or
// 1h. Code InvalidRequest for any other step.
func (o *Overview) Statistics(sub *sluice.Subscription, since time.Time, step string) (sluice.Statistics, error) {
	if step == "" {
		step = "5m"
	}
	wide, known := steps()[step]
	if !known {
		return sluice.Statistics{}, sluice.Errorf(sluice.InvalidRequest, "step %q: use 1m, 5m or 1h", step).With("field", "step")
	}
	earliest := o.deps.Now().Add(-24*time.Hour + time.Minute)
	if wide == time.Minute {
		earliest = o.deps.Now().Add(-time.Hour + time.Minute)
	}
	if since.Before(earliest) {
		since = earliest
	}
	if now := o.deps.Now(); since.After(now) {
		since = now
	}
	points := o.deps.Series(sub, since, wide)
	s := sluice.Statistics{Step: step, Points: make([]sluice.StatisticsPoint, len(points))}
	for i, p := range points {
		s.Points[i] = pointOf(p)
	}
	return s, nil
}

// Replicas returns the servers that share the subscriptions.
func (o *Overview) Replicas() []sluice.OverviewReplica {
	seen := o.deps.Replicas()
	all := make([]sluice.OverviewReplica, len(seen))
	for i, r := range seen {
		all[i] = sluice.OverviewReplica{ID: r.ID, Version: r.Version, Leases: r.Leases, Feeds: r.Feeds, SeenAt: r.At}
	}
	return all
}

// pointOf converts a point of a series to its form in the API.
func pointOf(p rollup.Point) sluice.StatisticsPoint {
	shown := sluice.StatisticsPoint{At: p.At, Delivered: uint64(p.Delivered), Failed: uint64(p.Failed), Failures: p.ByClass()}
	if p.Attempts() > 0 {
		ms := func(share float64) *float64 {
			v := float64(p.Quantile(share).Round(time.Millisecond/10)) / float64(time.Millisecond)
			return &v
		}
		shown.P50, shown.P95, shown.P99 = ms(0.5), ms(0.95), ms(0.99)
	}
	return shown
}

// sparkline returns the attempts of a subscription in the last day, in steps of half an hour.
func (o *Overview) sparkline(sub *sluice.Subscription) *sluice.Sparkline {
	const step, steps = 30 * time.Minute, 48
	points := o.deps.Series(sub, o.deps.Now().Truncate(step).Add(-(steps-1)*step), step)
	s := &sluice.Sparkline{Step: "30m", Delivered: make([]uint64, len(points)), Failed: make([]uint64, len(points))}
	for i, p := range points {
		s.Delivered[i], s.Failed[i] = uint64(p.Delivered), uint64(p.Failed)
	}
	return s
}
