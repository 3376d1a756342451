package metrics

import "github.com/prometheus/client_golang/prometheus"

// FeedUse is the feeds' use of a server's resources.
type FeedUse struct {
	Feeds     int    // open now
	Missed    uint64 // frames missed by readers since the start
	Refused   uint64 // feeds refused since the start because of the limits
	Rings     int    // namespaces with a ring
	RingBytes int    // bytes of these
}

// WatchFeeds reads the feeds' use at each scrape (S2-81). Call it once.
func (m *Metrics) WatchFeeds(read func() FeedUse) {
	gauge := func(name, help string, value func(FeedUse) float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return value(read()) })
	}
	counter := func(name, help string, value func(FeedUse) float64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, func() float64 { return value(read()) })
	}
	m.registry.MustRegister(
		gauge("sluice_feeds", "Open feeds.", func(u FeedUse) float64 { return float64(u.Feeds) }),
		gauge("sluice_feed_rings", "Namespaces with recent events in memory for feeds.", func(u FeedUse) float64 { return float64(u.Rings) }),
		gauge("sluice_feed_ring_bytes", "Approximate size of these events in bytes.", func(u FeedUse) float64 { return float64(u.RingBytes) }),
		counter("sluice_feed_missed_total", "Frames dropped because readers of feeds were too slow.", func(u FeedUse) float64 { return float64(u.Missed) }),
		counter("sluice_feeds_refused_total", "Feeds refused because of the limits.", func(u FeedUse) float64 { return float64(u.Refused) }),
	)
}
