// Package metrics knows what Sluice counts and under which names Prometheus finds it.
package metrics

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Moment is how one subscription is doing right now, in this process.
type Moment struct {
	Namespace    string
	Subscription string
	InFlight     int     // attempts under way
	Held         int     // events handed out and not settled
	Parked       int     // lanes
	LagSeconds   float64 // age of the oldest event that is held or parked
}

// Metrics is a set of counters. Its methods may be called at once.
type Metrics struct {
	registry  *prometheus.Registry
	published *prometheus.CounterVec
	matched   *prometheus.CounterVec
	attempts  *prometheus.CounterVec
	dead      *prometheus.CounterVec
	duration  *prometheus.HistogramVec
}

// New returns a set that reads the subscriptions' moments whenever it is scraped.
func New(moments func() []Moment) *Metrics {
	perSubscription := []string{"namespace", "subscription"}
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		published: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_events_published_total", Help: "Events stored through the HTTP API.",
		}, []string{"namespace", "duplicate"}),
		matched: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_events_matched_total", Help: "Events that a subscription's pattern and filter chose.",
		}, perSubscription),
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_attempts_total", Help: "Attempts by outcome: delivered, failed, gone, refused.",
		}, append(perSubscription, "outcome")),
		dead: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_dead_letters_total", Help: "Deliveries given up, by reason.",
		}, append(perSubscription, "reason")),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "sluice_attempt_duration_seconds", Help: "How long attempts took.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		}, perSubscription),
	}
	m.registry.MustRegister(m.published, m.matched, m.attempts, m.dead, m.duration, &gauges{moments},
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Handler serves the metrics in Prometheus's text format.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{Registry: m.registry})
}

// Published counts events that were stored.
func (m *Metrics) Published(namespace string, stored []sluice.Stored) {
	for _, s := range stored {
		duplicate := "false"
		if s.Duplicate {
			duplicate = "true"
		}
		m.published.WithLabelValues(namespace, duplicate).Inc()
	}
}

// Matched counts an event that is to be delivered.
func (m *Metrics) Matched(sub *sluice.Subscription) {
	m.matched.WithLabelValues(sub.Namespace, sub.ID).Inc()
}

// Attempted counts an attempt.
func (m *Metrics) Attempted(sub *sluice.Subscription, a *sluice.Attempt) {
	m.attempts.WithLabelValues(sub.Namespace, sub.ID, string(a.Outcome)).Inc()
	m.duration.WithLabelValues(sub.Namespace, sub.ID).Observe(a.Duration.Std().Seconds())
}

// Buried counts a dead letter.
func (m *Metrics) Buried(sub *sluice.Subscription, reason sluice.Reason) {
	m.dead.WithLabelValues(sub.Namespace, sub.ID, string(reason)).Inc()
}

// gauges turns moments into gauges when they are asked for.
type gauges struct{ moments func() []Moment }

type gauge struct {
	name, help string
	value      func(Moment) float64
}

func gaugeList() []gauge {
	return []gauge{
		{"sluice_attempts_in_flight", "Attempts under way.", func(m Moment) float64 { return float64(m.InFlight) }},
		{"sluice_deliveries_held", "Events handed out and not settled yet.", func(m Moment) float64 { return float64(m.Held) }},
		{"sluice_lanes_parked", "Lanes that wait for their next attempt.", func(m Moment) float64 { return float64(m.Parked) }},
		{"sluice_lag_seconds", "Age of the oldest event that is held or parked.", func(m Moment) float64 { return m.LagSeconds }},
	}
}

// Describe is for prometheus.Collector: the gauges are not checked in advance.
func (g *gauges) Describe(chan<- *prometheus.Desc) {}

// Collect is for prometheus.Collector.
func (g *gauges) Collect(out chan<- prometheus.Metric) {
	moments := g.moments()
	for _, kind := range gaugeList() {
		desc := prometheus.NewDesc(kind.name, kind.help, []string{"namespace", "subscription"}, nil)
		for _, m := range moments {
			out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, kind.value(m), m.Namespace, m.Subscription)
		}
	}
}
