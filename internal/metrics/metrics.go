// Package metrics defines Sluice's Prometheus metrics.
package metrics

import (
	"context"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	bridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// namespaceLog is a snapshot of a namespace's log.
type namespaceLog struct {
	namespace string
	events    uint64
	bytes     uint64
	maxBytes  uint64 // maximum; 0: unlimited
	lastSeq   uint64 // number of events ever published, by any publisher
}

// Metrics is a set of counters. It is safe for concurrent use. Labels are bounded: namespaces,
// subscriptions and routes are known to the server; paths, event IDs and callers are never labels.
// The counters of a subscription are removed by Forget.
type Metrics struct {
	log      *slog.Logger
	registry *prometheus.Registry
	taken    *prometheus.CounterVec
	duration *prometheus.HistogramVec
	exported *prometheus.CounterVec
	failures *prometheus.CounterVec
	dropped  *prometheus.CounterVec
	loops    *prometheus.CounterVec
	of       *subscriptions
	due      due
	requests *requests
}

// New returns a set of counters; log gets the failures of scrapes.
func New(log *slog.Logger) *Metrics {
	m := &Metrics{
		log:      log,
		registry: prometheus.NewRegistry(),
		of:       newSubscriptions(),
		due:      newDue(),
		requests: newRequests(),
		taken: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_api_events_total", Help: "Events accepted by the HTTP API, including duplicates.",
		}, []string{"namespace", "duplicate"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "sluice_attempt_duration_seconds", Help: "Duration of attempts, of all subscriptions of a namespace.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		}, []string{"namespace"}),
	}
	m.dropped = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sluice_announcements_dropped_total", Help: "System events that were not published, by type.",
	}, []string{"type"})
	m.exported = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sluice_exported_total", Help: "Records written to files: events, dead_letters.",
	}, []string{"what"})
	m.failures = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sluice_export_failures_total", Help: "Number of times writing to files failed; it resumes automatically.",
	}, []string{"what"})
	m.loops = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sluice_event_loops_total", Help: "Events in causation loops that were refused or not delivered.",
	}, []string{"namespace"})
	m.registry.MustRegister(m.requests.served, m.requests.duration, m.of, m.due.ended, m.due.late, m.exported, m.failures, m.loops, m.taken, m.duration, m.dropped,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// WatchDeliveries reads the snapshots of subscriptions at each scrape. Call it once. read is called
// by each scrape, and must not block.
func (m *Metrics) WatchDeliveries(read func() []model.DeliveryGauges) {
	m.registry.MustRegister(readings[model.DeliveryGauges]{read, deliveryReadings()})
}

// WatchLogs reads the namespaces' logs at each scrape, until ctx is done. There are no values while
// the store is unavailable. Call it once.
func (m *Metrics) WatchLogs(ctx context.Context, list func(context.Context) ([]sluice.Namespace, error)) {
	read := func(ctx context.Context) ([]namespaceLog, error) {
		all, err := list(ctx)
		logs := make([]namespaceLog, 0, len(all))
		for _, ns := range all {
			if u := ns.Usage; u != nil {
				logs = append(logs, namespaceLog{ns.Name, u.Events, u.Bytes, uint64(max(ns.Retention.MaxBytes, 0)), u.LastSeq})
			}
		}
		return logs, err
	}
	m.registry.MustRegister(readings[namespaceLog]{kept(ctx, m.log, keptFor, read), logReadings()})
}

// WatchStorage reads the store's usage at each scrape, until ctx is done. There are no values while
// the store is unavailable. Call it once.
func (m *Metrics) WatchStorage(ctx context.Context, storage func(context.Context) (sluice.Storage, error)) {
	read := kept(ctx, m.log, keptFor, func(ctx context.Context) ([]sluice.Storage, error) {
		s, err := storage(ctx)
		return []sluice.Storage{s}, err
	})
	of := func(name, help string, value func(sluice.Storage) uint64) reading[sluice.Storage] {
		return reading[sluice.Storage]{
			prometheus.NewDesc(name, help, nil, nil), prometheus.GaugeValue,
			func(s sluice.Storage) float64 { return float64(value(s)) }, func(sluice.Storage) []string { return nil },
		}
	}
	m.registry.MustRegister(readings[sluice.Storage]{read, []reading[sluice.Storage]{
		of("sluice_storage_bytes", "Bytes used by all logs and records.", func(s sluice.Storage) uint64 { return s.UsedBytes }),
		of("sluice_storage_damage", "Damage to the store that is not acknowledged: GET /v1/storage lists it.", func(s sluice.Storage) uint64 { return uint64(len(s.Damage)) }),
		of("sluice_storage_missing", "Streams and buckets that were deleted in NATS and not recreated: /readyz lists them.", func(s sluice.Storage) uint64 { return uint64(len(s.Missing)) }),
		of("sluice_storage_limit_bytes", "Limit of these bytes; 0: unknown.", func(s sluice.Storage) uint64 { return s.LimitBytes }),
		of("sluice_storage_level", "Writes that the store accepts: 0 all, 1 no events, 2 no additions, 3 none.", func(s sluice.Storage) uint64 { return uint64(max(s.Level, 0)) }),
	}})
}

// WatchConnections reads the number of open API connections at each scrape. Call it once.
func (m *Metrics) WatchConnections(open func() int64) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "sluice_http_connections", Help: "Open connections to the HTTP API.",
	}, func() float64 { return float64(open()) }))
}

// Know limits the counters to existing subscriptions. Call it before anything is counted. A deleted
// subscription must not exist any more when Forget is called.
func (m *Metrics) Know(created model.Created) { m.of.created = created }

// Forget removes the counters of a subscription that was deleted.
func (m *Metrics) Forget(subscription string) { m.of.forget(subscription) }

// Producer reads the metrics for an exporter of OpenTelemetry.
func (m *Metrics) Producer() metric.Producer {
	return bridge.NewMetricProducer(bridge.WithGatherer(m.registry))
}

// Handler serves the metrics in Prometheus's text format. Scrapes may be concurrent. Figures of
// the store are left out while it cannot be read, and the scrape succeeds.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{Registry: m.registry})
}

// Taken counts events that the API stored. Events of NATS clients count in
// sluice_events_published_total only.
func (m *Metrics) Taken(namespace string, stored []sluice.Stored) {
	for _, s := range stored {
		duplicate := "false"
		if s.Duplicate {
			duplicate = "true"
		}
		m.taken.WithLabelValues(namespace, duplicate).Inc()
	}
}

// Matched counts an event to be delivered.
func (m *Metrics) Matched(sub *sluice.Subscription) {
	m.of.add(sub, m.of.matched, "", 1)
}

// Attempted counts an attempt.
func (m *Metrics) Attempted(sub *sluice.Subscription, a *sluice.Attempt) {
	m.of.add(sub, m.of.attempts, string(a.Outcome), 1)
	m.of.add(sub, m.of.seconds, "", a.Duration.Std().Seconds())
	m.duration.WithLabelValues(sub.Namespace).Observe(a.Duration.Std().Seconds())
}

// Buried counts a dead letter.
func (m *Metrics) Buried(sub *sluice.Subscription, reason sluice.Reason) {
	m.of.add(sub, m.of.dead, string(reason), 1)
}

// Exported counts records written to files: of the kind events or dead_letters.
func (m *Metrics) Exported(what string, n int) {
	m.exported.WithLabelValues(what).Add(float64(n))
}

// ExportFailed counts a failure to write files.
func (m *Metrics) ExportFailed(what string) {
	m.failures.WithLabelValues(what).Inc()
}

// Withheld counts an event that the gate withheld from a subscription.
func (m *Metrics) Withheld(sub *sluice.Subscription) {
	m.of.add(sub, m.of.withheld, "", 1)
}

// Turned counts the openings of a breaker.
func (m *Metrics) Turned(sub *sluice.Subscription, to sluice.Breaker) {
	if to == sluice.BreakerOpen {
		m.of.add(sub, m.of.opened, "", 1)
	}
}

// Throttled counts a wait for the rate or for a Retry-After.
func (m *Metrics) Throttled(sub *sluice.Subscription) {
	m.of.add(sub, m.of.waited, "", 1)
}

// Failing counts that a subscription has failed for percent of the time until it is disabled.
func (m *Metrics) Failing(sub *sluice.Subscription, percent int, _ time.Time) {
	m.of.add(sub, m.of.failing, strconv.Itoa(percent), 1)
}

// Unannounced counts a system event that was not published.
func (m *Metrics) Unannounced(kind string) { m.dropped.WithLabelValues(kind).Inc() }

// Looped counts an event that caused itself.
func (m *Metrics) Looped(namespace string) { m.loops.WithLabelValues(namespace).Inc() }

// reading is a metric that is computed from a T. labels returns the values in the order of the
// names in desc.
type reading[T any] struct {
	desc   *prometheus.Desc
	kind   prometheus.ValueType
	value  func(T) float64
	labels func(T) []string
}

func deliveryReadings() []reading[model.DeliveryGauges] {
	labels := func(g model.DeliveryGauges) []string { return []string{g.Namespace, g.Subscription} }
	gauge := func(name, help string, value func(model.DeliveryGauges) float64) reading[model.DeliveryGauges] {
		return reading[model.DeliveryGauges]{prometheus.NewDesc(name, help, []string{"namespace", "subscription"}, nil), prometheus.GaugeValue, value, labels}
	}
	return []reading[model.DeliveryGauges]{
		gauge("sluice_attempts_in_flight", "Attempts in flight.", func(g model.DeliveryGauges) float64 { return float64(g.InFlight) }),
		gauge("sluice_deliveries_buffered", "Deliveries received from JetStream and not settled yet.", func(g model.DeliveryGauges) float64 { return float64(g.Buffered) }),
		gauge("sluice_lanes_parked", "Lanes that wait for their next attempt.", func(g model.DeliveryGauges) float64 { return float64(g.Parked) }),
		gauge("sluice_lanes_held", "Parked lanes that wait until their head is retried or discarded.", func(g model.DeliveryGauges) float64 { return float64(g.HeldLanes) }),
		gauge("sluice_lag_seconds", "Age of the oldest event that is buffered or parked.", func(g model.DeliveryGauges) float64 { return g.Lag.Seconds() }),
		gauge("sluice_source_unopened", "1: the subscription's events cannot be read from the log, so nothing is delivered.", func(g model.DeliveryGauges) float64 { return map[bool]float64{true: 1}[g.Unopened] }),
		gauge("sluice_breaker_state", "0: closed, 1: open, 2: half-open.", func(g model.DeliveryGauges) float64 { return breakerState(g.Breaker) }),
	}
}

// breakerState returns the value of a breaker; an unknown one counts as closed.
func breakerState(b sluice.Breaker) float64 {
	switch b {
	case sluice.BreakerOpen:
		return 1
	case sluice.BreakerHalfOpen:
		return 2
	case sluice.BreakerClosed:
	}
	return 0
}

func logReadings() []reading[namespaceLog] {
	labels := func(l namespaceLog) []string { return []string{l.namespace} }
	of := func(kind prometheus.ValueType, name, help string, value func(namespaceLog) float64) reading[namespaceLog] {
		return reading[namespaceLog]{prometheus.NewDesc(name, help, []string{"namespace"}, nil), kind, value, labels}
	}
	return []reading[namespaceLog]{
		of(prometheus.CounterValue, "sluice_events_published_total", "Events stored since the namespace was created, from all publishers.",
			func(l namespaceLog) float64 { return float64(l.lastSeq) }),
		of(prometheus.GaugeValue, "sluice_log_events", "Events in the log.", func(l namespaceLog) float64 { return float64(l.events) }),
		of(prometheus.GaugeValue, "sluice_log_bytes", "Bytes in the log.", func(l namespaceLog) float64 { return float64(l.bytes) }),
		of(prometheus.GaugeValue, "sluice_log_limit_bytes", "Maximum bytes in the log; 0: unlimited.", func(l namespaceLog) float64 { return float64(l.maxBytes) }),
	}
}

// readings is a collector that reads its values at each scrape.
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
