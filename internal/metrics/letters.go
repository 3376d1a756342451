package metrics

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-io/sluice/internal/model"
)

// lettersKept is how long a count of dead letters is reused. Counting is expensive, because the
// store's response names every subscription and path with dead letters.
const lettersKept = 30 * time.Second

// WatchLetters reads the numbers of stored dead letters, until ctx is done. There are no values
// while the store is unavailable. Dead letters of deleted subscriptions stay in the store, and
// count only in the total. Call it once.
func (m *Metrics) WatchLetters(ctx context.Context, read func(context.Context, model.Created) (model.DeadLetterGauges, error), created model.Created) {
	all := kept(ctx, m.log, lettersKept, func(ctx context.Context) ([]model.DeadLetterGauges, error) {
		g, err := read(ctx, created)
		return []model.DeadLetterGauges{g}, err
	})
	each := func() (of []model.SubscriptionLetters) {
		for _, g := range all() {
			for _, one := range g.Of {
				if _, exists := created(one.Namespace, one.Subscription); exists {
					of = append(of, one)
				}
			}
		}
		return of
	}
	m.registry.MustRegister(
		readings[model.DeadLetterGauges]{all, []reading[model.DeadLetterGauges]{{
			prometheus.NewDesc("sluice_dead_letters_stored", "Stored dead letters, including those of deleted subscriptions.", nil, nil), prometheus.GaugeValue,
			func(g model.DeadLetterGauges) float64 { return float64(g.Total) }, func(model.DeadLetterGauges) []string { return nil },
		}}},
		readings[model.SubscriptionLetters]{each, []reading[model.SubscriptionLetters]{{
			prometheus.NewDesc("sluice_subscription_dead_letters", "Dead letters of a subscription that wait for a redrive or a discard; absent with more than 100,000 in all.", []string{"namespace", "subscription"}, nil), prometheus.GaugeValue,
			func(s model.SubscriptionLetters) float64 { return float64(s.Letters) }, func(s model.SubscriptionLetters) []string { return []string{s.Namespace, s.Subscription} },
		}}},
	)
}

// WatchReplays reads the progress of replays at each scrape. Call it once.
func (m *Metrics) WatchReplays(read func() []model.ReplayGauges) {
	gauge := func(name, help string, value func(model.ReplayGauges) float64) reading[model.ReplayGauges] {
		return reading[model.ReplayGauges]{
			prometheus.NewDesc(name, help, []string{"namespace", "subscription"}, nil), prometheus.GaugeValue, value,
			func(g model.ReplayGauges) []string { return []string{g.Namespace, g.Subscription} },
		}
	}
	m.registry.MustRegister(readings[model.ReplayGauges]{read, []reading[model.ReplayGauges]{
		gauge("sluice_replays_running", "Replays and redrives that run.", func(g model.ReplayGauges) float64 { return float64(g.Running) }),
		gauge("sluice_replay_progress_ratio", "Progress of the one of them that is the least far, from 0 to 1.", func(g model.ReplayGauges) float64 { return g.Ratio }),
	}})
}
