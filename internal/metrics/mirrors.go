package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// WatchMirrors reads the snapshots of mirrors at each scrape. Call it once. The lag of a mirror
// that has not synced yet is unknown, and has no value.
func (m *Metrics) WatchMirrors(read func() []model.MirrorGauges) {
	known := func() (all []model.MirrorGauges) {
		for _, g := range read() {
			if g.Known {
				all = append(all, g)
			}
		}
		return all
	}
	gauge := func(name, help string, value func(model.MirrorGauges) float64) reading[model.MirrorGauges] {
		return reading[model.MirrorGauges]{
			prometheus.NewDesc(name, help, []string{"namespace", "subscription"}, nil), prometheus.GaugeValue, value,
			func(g model.MirrorGauges) []string { return []string{g.Namespace, g.Mirror} },
		}
	}
	m.registry.MustRegister(
		readings[model.MirrorGauges]{read, []reading[model.MirrorGauges]{
			gauge("sluice_mirror_state", "0: idle, 1: syncing, 2: error, 3: suspended.", func(g model.MirrorGauges) float64 { return syncState(g.State) }),
		}},
		readings[model.MirrorGauges]{known, []reading[model.MirrorGauges]{
			gauge("sluice_mirror_lag_items", "Sequences of its source that a mirror has not read.", func(g model.MirrorGauges) float64 { return float64(g.LagItems) }),
			gauge("sluice_mirror_lag_seconds", "Time since a mirror had all that its source had.", func(g model.MirrorGauges) float64 { return g.LagSeconds }),
		}},
	)
}

// syncState returns the value of a state; an unknown one counts as idle.
func syncState(s sluice.SyncState) float64 {
	switch s {
	case sluice.SyncSyncing:
		return 1
	case sluice.SyncError:
		return 2
	case sluice.SyncSuspended:
		return 3
	case sluice.SyncIdle:
	}
	return 0
}

// Synced counts the entries and gaps that a mirror stored.
func (m *Metrics) Synced(of *sluice.Mirror, entries, gaps int) {
	m.mirrored(of, m.of.mirrored, entries)
	m.mirrored(of, m.of.gaps, gaps)
}

// SyncFailed counts a failed sync of a mirror.
func (m *Metrics) SyncFailed(of *sluice.Mirror) { m.mirrored(of, m.of.unsynced, 1) }

func (m *Metrics) mirrored(of *sluice.Mirror, figure *prometheus.Desc, n int) {
	if n > 0 {
		m.of.add(&sluice.Subscription{Namespace: of.Namespace, ID: of.ID, Mode: sluice.Mirroring}, figure, "", float64(n))
	}
}
