package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Watch is a snapshot of one watch, in the process that runs it.
type Watch struct {
	Namespace  string
	ID         string
	LagSeconds float64 // age of the event in evaluation; 0: it has caught up
}

// Watches counts the work of watches.
type Watches struct {
	looked    *prometheus.CounterVec
	throttled *prometheus.CounterVec
	fired     *prometheus.CounterVec
}

// Watches returns the counters of watches, and reads their snapshots at each scrape. Call it once.
func (m *Metrics) Watches(read func() []Watch) *Watches {
	per := []string{"namespace", "watch"}
	w := &Watches{
		looked: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_watch_readings_total", Help: "Readings that a watch evaluated.",
		}, per),
		throttled: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_watch_throttled_total", Help: "Readings that a watch skipped because of its limit per second.",
		}, per),
		fired: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_watch_firings_total", Help: "Firings of a watch, by outcome: ok, or a code.",
		}, append(per, "outcome")),
	}
	m.registry.MustRegister(w.looked, w.throttled, w.fired, readings[Watch]{read, []reading[Watch]{{
		prometheus.NewDesc("sluice_watch_lag_seconds", "Age of the event that a watch evaluates; 0: it has caught up.", per, nil), prometheus.GaugeValue,
		func(w Watch) float64 { return w.LagSeconds }, func(w Watch) []string { return []string{w.Namespace, w.ID} },
	}}})
	return w
}

// Looked counts evaluated and throttled readings of a watch.
func (w *Watches) Looked(of *sluice.Watch, readings, throttled uint64) {
	if readings > 0 {
		w.looked.WithLabelValues(of.Namespace, of.ID).Add(float64(readings))
	}
	if throttled > 0 {
		w.throttled.WithLabelValues(of.Namespace, of.ID).Add(float64(throttled))
	}
}

// Fired counts that a watch fired.
func (w *Watches) Fired(of *sluice.Watch, outcome string) {
	w.fired.WithLabelValues(of.Namespace, of.ID, outcome).Inc()
}
