package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-io/sluice/internal/model"
)

// WatchKnowledge reads the figures of enrichment at each scrape. Call it once.
func (m *Metrics) WatchKnowledge(read func() []model.KnowledgeGauges) {
	gauge := func(name, help string, value func(model.KnowledgeGauges) float64) reading[model.KnowledgeGauges] {
		return reading[model.KnowledgeGauges]{
			prometheus.NewDesc(name, help, []string{"namespace"}, nil), prometheus.GaugeValue, value,
			func(g model.KnowledgeGauges) []string { return []string{g.Namespace} },
		}
	}
	m.registry.MustRegister(readings[model.KnowledgeGauges]{read, []reading[model.KnowledgeGauges]{
		gauge("sluice_enrichment_entries", "Entries of an enrichment in the memory of this replica.", func(g model.KnowledgeGauges) float64 { return float64(g.Status.Entries) }),
		gauge("sluice_enrichment_entries_not_held", "Entries without room: no jobs, not found; of many, the first 16,384.", func(g model.KnowledgeGauges) float64 { return float64(g.Status.NotHeld) }),
		gauge("sluice_enrichment_memory_bytes", "Approximate memory of an enrichment.", func(g model.KnowledgeGauges) float64 { return float64(g.Status.MemoryBytes) }),
	}})
}
