package metrics

import (
	"cmp"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

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
	m.of.add(sub, m.of.woken, "", 1)
}

// Notified counts an attempt to notify.
func (m *Metrics) Notified(sub *sluice.Subscription, a *sluice.Attempt) { m.Attempted(sub, a) }

// CalledBack counts a callback; without a code it was accepted. Codes are those of S1, a fixed set.
func (m *Metrics) CalledBack(sub *sluice.Subscription, code sluice.Code) {
	m.of.add(sub, m.of.callbacks, string(cmp.Or(code, "OK")), 1)
}
