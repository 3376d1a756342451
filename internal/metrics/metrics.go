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

// Log is what a namespace's log holds right now.
type Log struct {
	Namespace string
	Events    uint64
	Bytes     uint64
	LastSeq   uint64 // so many events were ever published, whoever published them
}

// Metrics is a set of counters. Its methods may be called at once.
type Metrics struct {
	registry *prometheus.Registry
	taken    *prometheus.CounterVec
	matched  *prometheus.CounterVec
	attempts *prometheus.CounterVec
	dead     *prometheus.CounterVec
	duration *prometheus.HistogramVec
	dropped  *prometheus.CounterVec
}

// New returns a set that reads the subscriptions' moments and the logs whenever it is scraped.
func New(moments func() []Moment, logs func() []Log) *Metrics {
	perSubscription := []string{"namespace", "subscription"}
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		taken: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_api_events_total", Help: "Events taken by the HTTP API, duplicates included.",
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
		dropped: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_announcements_dropped_total", Help: "System events that were not published, by type.",
		}, []string{"type"}),
	}
	m.registry.MustRegister(m.taken, m.matched, m.attempts, m.dead, m.duration, m.dropped,
		readings[Moment]{moments, momentReadings()}, readings[Log]{logs, logReadings()},
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Handler serves the metrics in Prometheus's text format.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{Registry: m.registry})
}

// Taken counts events that the API stored.
func (m *Metrics) Taken(namespace string, stored []sluice.Stored) {
	for _, s := range stored {
		duplicate := "false"
		if s.Duplicate {
			duplicate = "true"
		}
		m.taken.WithLabelValues(namespace, duplicate).Inc()
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

// Unannounced counts a system event that was not published.
func (m *Metrics) Unannounced(kind string) { m.dropped.WithLabelValues(kind).Inc() }

// reading is one figure of a T.
type reading[T any] struct {
	desc   *prometheus.Desc
	kind   prometheus.ValueType
	value  func(T) float64
	labels func(T) []string
}

func momentReadings() []reading[Moment] {
	labels := func(m Moment) []string { return []string{m.Namespace, m.Subscription} }
	gauge := func(name, help string, value func(Moment) float64) reading[Moment] {
		return reading[Moment]{prometheus.NewDesc(name, help, []string{"namespace", "subscription"}, nil), prometheus.GaugeValue, value, labels}
	}
	return []reading[Moment]{
		gauge("sluice_attempts_in_flight", "Attempts under way.", func(m Moment) float64 { return float64(m.InFlight) }),
		gauge("sluice_deliveries_held", "Events handed out and not settled yet.", func(m Moment) float64 { return float64(m.Held) }),
		gauge("sluice_lanes_parked", "Lanes that wait for their next attempt.", func(m Moment) float64 { return float64(m.Parked) }),
		gauge("sluice_lag_seconds", "Age of the oldest event that is held or parked.", func(m Moment) float64 { return m.LagSeconds }),
	}
}

func logReadings() []reading[Log] {
	labels := func(l Log) []string { return []string{l.Namespace} }
	of := func(kind prometheus.ValueType, name, help string, value func(Log) float64) reading[Log] {
		return reading[Log]{prometheus.NewDesc(name, help, []string{"namespace"}, nil), kind, value, labels}
	}
	return []reading[Log]{
		of(prometheus.CounterValue, "sluice_events_published_total", "Events stored since the namespace was made, whoever published them.",
			func(l Log) float64 { return float64(l.LastSeq) }),
		of(prometheus.GaugeValue, "sluice_log_events", "Events that the log holds.", func(l Log) float64 { return float64(l.Events) }),
		of(prometheus.GaugeValue, "sluice_log_bytes", "Bytes that the log holds.", func(l Log) float64 { return float64(l.Bytes) }),
	}
}

// readings is a collector that reads its values when it is asked.
type readings[T any] struct {
	read func() []T
	all  []reading[T]
}

// Describe is for prometheus.Collector.
func (r readings[T]) Describe(out chan<- *prometheus.Desc) {
	for _, figure := range r.all {
		out <- figure.desc
	}
}

// Collect is for prometheus.Collector.
func (r readings[T]) Collect(out chan<- prometheus.Metric) {
	values := r.read()
	for _, figure := range r.all {
		for _, v := range values {
			out <- prometheus.MustNewConstMetric(figure.desc, figure.kind, figure.value(v), figure.labels(v)...)
		}
	}
}
