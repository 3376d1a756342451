package app

import (
	"crypto/rand"
	"time"

	"github.com/sluice-io/sluice/internal/endpoint"
	"github.com/sluice-io/sluice/internal/explain"
	"github.com/sluice-io/sluice/internal/health"
	"github.com/sluice-io/sluice/internal/httpapi"
	"github.com/sluice-io/sluice/internal/metrics"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/natsstore/records"
	"github.com/sluice-io/sluice/internal/rollup"
	"github.com/sluice-io/sluice/internal/subscription"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// openRollups constructs the statistics of attempts.
func (s *server) openRollups() {
	s.rollups = rollup.New(rollup.Deps{
		Store: records.NewRollups(s.store), Process: rand.Text(), Now: time.Now, Log: s.opts.Log,
		Gauges:  func() []model.DeliveryGauges { return s.engine.Gauges() },
		Replays: func() []model.ReplayGauges { return s.engine.ReplayGauges() },
		Wakes:   func() []model.WakeGauges { return s.wakes.Gauges() },
		Replica: func() rollup.Replica {
			return rollup.Replica{ID: s.replica, Version: s.version(), Leases: s.leases.Held(), Feeds: s.feeds.Gauges().Feeds}
		},
	})
}

// overview returns the overview of the health of subscriptions.
func (s *server) overview() *health.Overview {
	return health.New(health.Deps{
		Store: s.deliveries, Subscriptions: s.store.Subscriptions().List, Hour: s.rollups.Hour, Minutes: s.rollups.Minutes, Series: s.rollups.Series, Replicas: s.rollups.Replicas, Now: time.Now,
	})
}

// observed is metrics, and the statistics of the last hour.
type observed struct {
	*metrics.Metrics

	rollups *rollup.Book
}

// Attempted counts an attempt.
func (o observed) Attempted(sub *sluice.Subscription, a *sluice.Attempt) {
	o.Metrics.Attempted(sub, a)
	o.rollups.Attempted(sub, a)
}

// Notified counts an attempt to notify.
func (o observed) Notified(sub *sluice.Subscription, a *sluice.Attempt) { o.Attempted(sub, a) }

// delivering returns the API's dependencies for requests about deliveries.
func (s *server) delivering() httpapi.Delivering {
	return httpapi.Delivering{
		Deliveries:  subscription.Deliveries{Statuses: s.deliveries, Sender: s.tracing.Sender(s.attemptSender()), Pace: s.limits},
		DeadLetters: subscription.DeadLetters{DeadLetterStore: s.deliveries, Discarder: s.deliveries, Ledger: s.ledger},
		Replays:     s.registry,
		Attempts:    s.deliveries,
		Explain:     explain.New(s.deliveries, s.log, explain.Options{Labels: s.catalogue.Labels, Filters: s.filters, Payer: s.index.Payer}),
		Fact:        endpoint.Fact,
		Retrier:     subscription.Retrier{Lanes: s.deliveries, Registry: s.registry},
		Sends:       s.limits,
		Health:      s.overview(),
	}
}
