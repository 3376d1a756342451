package metrics_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/metrics"
	"github.com/sluice-io/sluice/internal/model"
)

// Requests that wait count, but how long they take says nothing about the server.
func TestServed_WaitingRequestsHaveNoDuration(t *testing.T) {
	t.Parallel()
	m := metrics.New(slog.New(slog.DiscardHandler))
	m.Served(model.Served{Method: "GET", Route: "/feed", Status: 101, Took: time.Hour, Waits: true})
	m.Served(model.Served{Method: "GET", Route: "/a", Status: 404, Took: 20 * time.Millisecond})
	m.Served(model.Served{Method: "GET", Route: "/a", Status: 410, Took: 20 * time.Millisecond})
	scrape := httptest.NewRecorder()
	m.Handler().ServeHTTP(scrape, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	for _, line := range []string{
		`sluice_http_requests_total{method="GET",route="/feed",status="1xx"} 1`,
		`sluice_http_request_duration_seconds_count{method="GET",route="/feed",status="1xx"} 0`,
		`sluice_http_requests_total{method="GET",route="/a",status="4xx"} 2`,
		`sluice_http_request_duration_seconds_bucket{method="GET",route="/a",status="4xx",le="0.01"} 0`,
		`sluice_http_request_duration_seconds_bucket{method="GET",route="/a",status="4xx",le="0.025"} 2`,
	} {
		require.Contains(t, scrape.Body.String(), line+"\n")
	}
}

func BenchmarkServed(b *testing.B) {
	m := metrics.New(slog.New(slog.DiscardHandler))
	b.ReportAllocs()
	for b.Loop() {
		m.Served(model.Served{Method: "POST", Route: "/v1/namespaces/:ns/events", Status: 201, Took: time.Millisecond})
	}
}
