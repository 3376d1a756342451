package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// subscriptions counts the work of subscriptions, in about 40 bytes for each counter. It replaces
// the vectors of Prometheus because there may be thousands of subscriptions, and the counters of
// deleted ones must be removed. mu guards all and the counters in it; the descriptions do not
// change.
type subscriptions struct {
	matched, attempts, seconds, dead, opened, waited, failing, withheld, woken, callbacks, mirrored, gaps, unsynced *prometheus.Desc

	mu      sync.Mutex
	all     map[string]*figures // by id
	created model.Created       // of subscriptions that are not mirrors
}

// figures is the counters of one subscription.
type figures struct {
	namespace string
	created   time.Time // of the subscription: a later one can have the same ID
	counts    []count   // most have three
}

// count is the value of a counter, which may have one more label.
type count struct {
	of    *prometheus.Desc
	label string // empty: the counter has none
	value float64
}

// newSubscriptions returns the collector. A description that is added here must be added to
// Describe, too.
func newSubscriptions() *subscriptions {
	counter := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, append([]string{"namespace", "subscription"}, labels...), nil)
	}
	return &subscriptions{
		matched:   counter("sluice_events_matched_total", "Events that matched a subscription's pattern and filter."),
		attempts:  counter("sluice_attempts_total", "Attempts, by outcome: delivered, failed, gone, refused.", "outcome"),
		seconds:   counter("sluice_attempt_seconds_total", "Sum of the durations of attempts."),
		dead:      counter("sluice_dead_letters_total", "Deliveries that failed for good, by reason.", "reason"),
		opened:    counter("sluice_breaker_openings_total", "Number of times a breaker opened, including from half-open."),
		waited:    counter("sluice_throttled_total", "Number of times a request waited for the rate or for a Retry-After."),
		failing:   counter("sluice_failing_alerts_total", "Number of times continuous failure reached 50, 70, 90, 100 per cent of disable_after.", "percent"),
		withheld:  counter("sluice_gate_withheld_total", "Events that matched a subscription, but that its owner may not read."),
		woken:     counter("sluice_wakes_total", "Number of wakes; their notices count as attempts."),
		callbacks: counter("sluice_wake_callbacks_total", "Callbacks of wake consumers, by response: OK, STALE_EPOCH, CONSUMER_GONE, …", "code"),
		mirrored:  counter("sluice_mirror_entries_total", "Entries that a mirror stored, including revisions and tombstones."),
		gaps:      counter("sluice_mirror_gaps_total", "Ranges of its source that a mirror found missing."),
		unsynced:  counter("sluice_mirror_sync_failures_total", "Failed syncs of a mirror."),
		all:       map[string]*figures{},
		created:   func(string, string) (time.Time, bool) { return time.Time{}, true },
	}
}

// add adds to a counter of a subscription. It searches the few counters of the subscription one
// after another, which costs less than a map of labels. A subscription that is created again begins
// at 0. What a deleted one still had in flight does not count: its counters were removed.
func (s *subscriptions) add(sub *sluice.Subscription, of *prometheus.Desc, label string, value float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.all[sub.ID]
	if f != nil && sub.CreatedAt.Before(f.created) {
		return
	}
	if f == nil || f.namespace != sub.Namespace || f.created.Before(sub.CreatedAt) {
		if at, exists := s.created(sub.Namespace, sub.ID); sub.Mode != sluice.Mirroring && (!exists || sub.CreatedAt.Before(at)) {
			return
		}
		f = &figures{namespace: sub.Namespace, created: sub.CreatedAt}
		s.all[sub.ID] = f
	}
	for i := range f.counts {
		if c := &f.counts[i]; c.of == of && c.label == label {
			c.value += value
			return
		}
	}
	f.counts = append(f.counts, count{of, label, value})
}

// forget removes the counters of a subscription.
func (s *subscriptions) forget(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, id)
}

// Describe is for prometheus.Collector.
func (s *subscriptions) Describe(out chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{s.matched, s.attempts, s.seconds, s.dead, s.opened, s.waited, s.failing, s.withheld, s.woken, s.callbacks, s.mirrored, s.gaps, s.unsynced} {
		out <- desc
	}
}

// Collect is for prometheus.Collector.
func (s *subscriptions) Collect(out chan<- prometheus.Metric) {
	for _, m := range s.snapshot() {
		out <- m
	}
}

// snapshot returns the counters of all subscriptions. The lock is not held while Prometheus reads
// them.
func (s *subscriptions) snapshot() (all []prometheus.Metric) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, f := range s.all {
		for _, c := range f.counts {
			labels := []string{f.namespace, id}
			if c.label != "" {
				labels = append(labels, c.label)
			}
			all = append(all, prometheus.MustNewConstMetric(c.of, prometheus.CounterValue, c.value, labels...))
		}
	}
	return all
}
