package app

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/sluice-io/sluice/internal/endpoint"
	"github.com/sluice-io/sluice/internal/explain"
	"github.com/sluice-io/sluice/internal/health"
	"github.com/sluice-io/sluice/internal/httpapi"
	"github.com/sluice-io/sluice/internal/metrics"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/natsstore/records"
	"github.com/sluice-io/sluice/internal/problem"
	"github.com/sluice-io/sluice/internal/rollup"
	"github.com/sluice-io/sluice/internal/subscription"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// watching holds the components that sum up deliveries for operators.
type watching struct {
	rollups  *rollup.Book
	health   *health.Overview
	problems *problem.Book
}

// openWatching constructs the statistics of attempts, the overview of the health of subscriptions,
// and the book of their problems.
func (s *server) openWatching() {
	s.rollups = rollup.New(rollup.Deps{
		Store: records.NewRollups(s.Store), Process: rand.Text(), Now: time.Now, Log: s.opts.Log,
		Gauges:  func() []model.DeliveryGauges { return s.engine.Gauges() },
		Replays: func() []model.ReplayGauges { return s.engine.ReplayGauges() },
		Wakes:   func() []model.WakeGauges { return s.wakes.Gauges() },
		Replica: func() rollup.Replica {
			return rollup.Replica{ID: s.replica, Version: s.version(), Leases: s.leases.Held(), Feeds: s.feeds.Gauges().Feeds}
		},
	})
	s.health = health.New(health.Deps{
		Store: s.deliveries, Subscriptions: s.Store.Subscriptions().List, Hour: s.rollups.Hour, Minutes: s.rollups.Minutes, Series: s.rollups.Series, Replicas: s.rollups.Replicas, Now: time.Now,
	})
	s.problems = problem.New(problem.Deps{
		Store: records.NewProblems(s.Store), Ledger: s.ledger, Owns: s.owns.Part().Owns, Lease: model.LeaseKey, Stands: s.stands, Situations: s.situations,
		Now: time.Now, Log: s.opts.Log,
	})
}

// stands returns the current state of the subscriptions that this process serves.
func (s *server) stands() map[string]problem.Standing {
	all := map[string]problem.Standing{}
	for _, g := range s.engine.Gauges() {
		all[g.Subscription] = problem.Standing{Parked: g.Parked, Breaker: g.Breaker}
	}
	return all
}

// situations returns a function that returns the current situation of a subscription from its ID.
// The function returns false for a subscription that does not exist.
func (s *server) situations(ctx context.Context) (func(id string) (problem.Situation, bool), error) {
	facts, err := s.health.Facts(ctx)
	if err != nil {
		return nil, err
	}
	return func(id string) (problem.Situation, bool) {
		sub, f := facts(id)
		if sub == nil {
			return problem.Situation{}, false
		}
		return problem.Situation{Sub: sub, Breaker: f.Breaker, Parked: f.Parked, DeadLetters: f.DeadLetters}, true
	}, nil
}

func (s *server) observed() observed { return observed{s.metrics, s.rollups, s.problems} }

// observed passes observations to metrics, statistics and problems.
type observed struct {
	*metrics.Metrics

	rollups  *rollup.Book
	problems *problem.Book
}

// Attempted counts an attempt.
func (o observed) Attempted(sub *sluice.Subscription, a *sluice.Attempt) {
	o.Metrics.Attempted(sub, a)
	o.rollups.Attempted(sub, a)
	o.problems.Attempted(sub, a)
}

// Turned records that a breaker has opened or closed.
func (o observed) Turned(sub *sluice.Subscription, to sluice.Breaker) {
	o.Metrics.Turned(sub, to)
	o.problems.Turned(sub, to)
}

// Notified counts an attempt to send a notice.
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
		Health:      s.health,
		Problems:    s.problems,
	}
}
