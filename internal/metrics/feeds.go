package metrics

import "github.com/prometheus/client_golang/prometheus"

// WatchFeeds reads how many feeds are open, and how many frames their readers have missed since the start, whenever
// the set is scraped (S2-81). Call it once.
func (m *Metrics) WatchFeeds(read func() (open int64, missed uint64)) {
	m.registry.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "sluice_feeds", Help: "Feeds that are open.",
		}, func() float64 {
			open, _ := read()
			return float64(open)
		}),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "sluice_feed_missed_total", Help: "Frames that readers of feeds were too slow for, and were told of.",
		}, func() float64 {
			_, missed := read()
			return float64(missed)
		}))
}
