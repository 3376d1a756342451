package metrics

import (
	"cmp"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// wakes counts the events of wake consumers.
type wakes struct {
	woken     *prometheus.CounterVec
	callbacks *prometheus.CounterVec
}

func newWakes() wakes {
	return wakes{
		woken: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_wakes_total", Help: "Number of wakes; their notices count as attempts.",
		}, []string{"namespace", "subscription"}),
		callbacks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_wake_callbacks_total", Help: "Callbacks of wake consumers, by response: OK, STALE_EPOCH, CONSUMER_GONE, …",
		}, []string{"namespace", "subscription", "code"}),
	}
}

// WatchWakes reads the snapshots of wake subscriptions at each scrape. Call it once.
func (m *Metrics) WatchWakes(read func() []model.WakeGauges) {
	labels := func(w model.WakeGauges) []string { return []string{w.Namespace, w.Subscription} }
	gauge := func(name, help string, value func(model.WakeGauges) int) reading[model.WakeGauges] {
		return reading[model.WakeGauges]{
			prometheus.NewDesc(name, help, []string{"namespace", "subscription"}, nil), prometheus.GaugeValue,
			func(w model.WakeGauges) float64 { return float64(value(w)) }, labels,
		}
	}
	figures := []reading[model.WakeGauges]{gauge("sluice_wake_notices_in_flight", "Notices in flight.", func(w model.WakeGauges) int { return w.Notices })}
	for _, state := range []sluice.WakeState{sluice.WakeIdle, sluice.WakeWaking, sluice.WakeLive} {
		figures = append(figures, gauge("sluice_wake_consumers_"+string(state), "Wake consumers that are "+string(state)+".",
			func(w model.WakeGauges) int { return w.Consumers[state] }))
	}
	m.registry.MustRegister(readings[model.WakeGauges]{read, slices.Clip(figures)})
}

// Woken counts a wake.
func (m *Metrics) Woken(sub *sluice.Subscription) {
	m.wakes.woken.WithLabelValues(sub.Namespace, sub.ID).Inc()
}

// Notified counts an attempt to notify.
func (m *Metrics) Notified(sub *sluice.Subscription, a *sluice.Attempt) { m.Attempted(sub, a) }

// CalledBack counts a callback; without a code it was accepted.
func (m *Metrics) CalledBack(sub *sluice.Subscription, code sluice.Code) {
	m.wakes.callbacks.WithLabelValues(sub.Namespace, sub.ID, string(cmp.Or(code, "OK"))).Inc()
}
