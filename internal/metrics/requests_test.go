package metrics_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/sluice-io/sluice/internal/metrics"
	"github.com/sluice-io/sluice/internal/model"
)

func BenchmarkServed(b *testing.B) {
	m := metrics.New(slog.New(slog.DiscardHandler))
	b.ReportAllocs()
	for b.Loop() {
		m.Served(model.Served{Method: "POST", Route: "/v1/namespaces/:ns/events", Status: 201, Took: time.Millisecond})
	}
}
