package httpapi

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/sluice-io/sluice/internal/metrics"
)

// The cost of a request that does nothing: routing and the middleware, without and with its figures.
func BenchmarkRequest_Nothing(b *testing.B) {
	for name, counts := range map[string]Requests{"uncounted": nil, "counted": metrics.New(slog.New(slog.DiscardHandler))} {
		b.Run(name, func(b *testing.B) {
			h := New(Options{Metrics: http.NotFoundHandler(), Requests: counts}).Handler()
			req := httptest.NewRequestWithContext(b.Context(), http.MethodGet, "/healthz", http.NoBody)
			b.ReportAllocs()
			for b.Loop() {
				h.ServeHTTP(httptest.NewRecorder(), req)
			}
		})
	}
}
