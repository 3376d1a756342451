package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-io/sluice/internal/model"
)

// WatchFeeds reads the feeds' use at each scrape (S2-81). Call it once.
func (m *Metrics) WatchFeeds(read func() model.FeedGauges) {
	gauge := func(name, help string, value func(model.FeedGauges) float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return value(read()) })
	}
	counter := func(name, help string, value func(model.FeedGauges) float64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, func() float64 { return value(read()) })
	}
	m.registry.MustRegister(
		gauge("sluice_feeds", "Open feeds.", func(u model.FeedGauges) float64 { return float64(u.Feeds) }),
		gauge("sluice_feed_rings", "Namespaces with recent events in memory for feeds.", func(u model.FeedGauges) float64 { return float64(u.Rings) }),
		gauge("sluice_feed_ring_bytes", "Approximate size of these events in bytes.", func(u model.FeedGauges) float64 { return float64(u.RingBytes) }),
		counter("sluice_feed_missed_total", "Frames dropped because readers of feeds were too slow.", func(u model.FeedGauges) float64 { return float64(u.Missed) }),
		counter("sluice_feeds_refused_total", "Feeds refused because of the limits.", func(u model.FeedGauges) float64 { return float64(u.Refused) }),
	)
}
