package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Watches counts the work of watches, until they are deleted.
type Watches struct {
	looked    *prometheus.CounterVec
	throttled *prometheus.CounterVec
	fired     *prometheus.CounterVec
}

func watchLabels() []string { return []string{"namespace", "watch"} }

// Watches returns the counters of watches. Call it once.
func (m *Metrics) Watches() *Watches {
	per := watchLabels()
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
	m.registry.MustRegister(w.looked, w.throttled, w.fired)
	return w
}

// WatchLag reads the snapshots of watches at each scrape. Call it once.
func (m *Metrics) WatchLag(read func() []model.WatchGauges) {
	m.registry.MustRegister(readings[model.WatchGauges]{read, []reading[model.WatchGauges]{{
		prometheus.NewDesc("sluice_watch_lag_seconds", "Age of the event that a watch evaluates; 0: it has caught up.", watchLabels(), nil), prometheus.GaugeValue,
		func(g model.WatchGauges) float64 { return g.Lag.Seconds() }, func(g model.WatchGauges) []string { return []string{g.Namespace, g.Watch} },
	}}})
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

// Deleted removes the counters of a watch.
func (w *Watches) Deleted(of *sluice.Watch) {
	for _, counters := range []*prometheus.CounterVec{w.looked, w.throttled, w.fired} {
		counters.DeletePartialMatch(prometheus.Labels{"namespace": of.Namespace, "watch": of.ID})
	}
}

// Fired counts that a watch fired. outcome is ok, or the code of the refusal.
func (w *Watches) Fired(of *sluice.Watch, outcome string) {
	w.fired.WithLabelValues(of.Namespace, of.ID, outcome).Inc()
}
