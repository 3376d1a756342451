package metrics_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/metrics"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// A deleted watch has no series any more; others keep theirs.
func TestWatches_DeletedHaveNoSeries(t *testing.T) {
	t.Parallel()
	m := metrics.New(slog.New(slog.DiscardHandler))
	w := m.Watches()
	gone, kept := &sluice.Watch{Namespace: "acme", ID: "gone"}, &sluice.Watch{Namespace: "acme", ID: "kept"}
	for _, of := range []*sluice.Watch{gone, kept} {
		w.Looked(of, 2, 1)
		w.Fired(of, "ok")
		w.Fired(of, "unavailable")
	}
	w.Deleted(gone)
	scrape := httptest.NewRecorder()
	m.Handler().ServeHTTP(scrape, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody))
	require.NotContains(t, scrape.Body.String(), `watch="gone"`)
	require.Contains(t, scrape.Body.String(), `sluice_watch_readings_total{namespace="acme",watch="kept"} 2`)
}
