package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// waiting is the number of a namespace's records of a kind that wait for their time.
type waiting struct {
	kind      string // event or appointment
	namespace string
	count     int
}

// due counts the outcomes of records with a due time.
type due struct {
	ended *prometheus.CounterVec
	late  *prometheus.HistogramVec
}

func newDue() due {
	return due{
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_due_total", Help: "Scheduled events and firings of appointments, by outcome: fired, failed, missed, cancelled.",
		}, []string{"what", "namespace", "outcome"}),
		late: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "sluice_due_late_seconds", Help: "Delay between the due time and the action.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 3600},
		}, []string{"what", "namespace"}),
	}
}

// WatchDue reads the numbers of waiting records at each scrape, for each kind (event, appointment)
// by namespace. Call it once.
func (m *Metrics) WatchDue(kinds map[string]func() map[string]int) {
	read := func() (all []waiting) {
		for kind, count := range kinds {
			for namespace, n := range count() {
				all = append(all, waiting{kind, namespace, n})
			}
		}
		return all
	}
	m.registry.MustRegister(readings[waiting]{read, []reading[waiting]{{
		prometheus.NewDesc("sluice_due_pending", "Scheduled events and appointments that are waiting.", []string{"what", "namespace"}, nil), prometheus.GaugeValue,
		func(w waiting) float64 { return float64(w.count) }, func(w waiting) []string { return []string{w.kind, w.namespace} },
	}}})
}

// Ended counts the outcome of a record that waited for its time. It also observes the delay of a
// successful one. The kinds are event and appointment; the outcomes are fired, failed, missed and
// cancelled.
func (m *Metrics) Ended(what, namespace, outcome string, late time.Duration) {
	m.due.ended.WithLabelValues(what, namespace, outcome).Inc()
	if outcome == "fired" {
		m.due.late.WithLabelValues(what, namespace).Observe(late.Seconds())
	}
}
