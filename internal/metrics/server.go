package metrics

import (
	"cmp"
	"context"
	"runtime"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-io/sluice/internal/model"
)

// Built adds a metric with the version, the commit of the build if it is known, and the version of
// Go. Call it once.
func (m *Metrics) Built(version string) {
	commit := ""
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				commit = s.Value
			}
		}
	}
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "sluice_build_info", Help: "Always 1; the labels name the build.",
		ConstLabels: prometheus.Labels{"version": version, "commit": cmp.Or(commit, "unknown"), "go": runtime.Version()},
	}, func() float64 { return 1 }))
}

// WatchNATS reads the state of the connection to NATS at each scrape, until ctx is done. Call it
// once. Reconnects is counted from the start of the process.
func (m *Metrics) WatchNATS(ctx context.Context, read func(context.Context) model.NATSGauges) {
	all := kept(ctx, m.log, keptFor, func(ctx context.Context) ([]model.NATSGauges, error) {
		return []model.NATSGauges{read(ctx)}, nil
	})
	answering := func() (some []model.NATSGauges) {
		for _, g := range all() {
			if g.RoundTrip > 0 {
				some = append(some, g)
			}
		}
		return some
	}
	of := func(kind prometheus.ValueType, name, help string, value func(model.NATSGauges) float64) []reading[model.NATSGauges] {
		return []reading[model.NATSGauges]{{prometheus.NewDesc(name, help, nil, nil), kind, value, func(model.NATSGauges) []string { return nil }}}
	}
	m.registry.MustRegister(
		readings[model.NATSGauges]{all, of(prometheus.GaugeValue, "sluice_nats_connected", "1: connected to NATS, 0: not.",
			func(g model.NATSGauges) float64 { return map[bool]float64{true: 1}[g.Connected] })},
		readings[model.NATSGauges]{all, of(prometheus.CounterValue, "sluice_nats_reconnects_total", "Number of times the connection to NATS was made again.",
			func(g model.NATSGauges) float64 { return float64(g.Reconnects) })},
		readings[model.NATSGauges]{answering, of(prometheus.GaugeValue, "sluice_nats_round_trip_seconds", "Time that NATS took to answer a ping; absent without an answer.",
			func(g model.NATSGauges) float64 { return g.RoundTrip.Seconds() })},
	)
}
