package httpapi_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// What cannot be held is refused, and not stored at once instead.
func TestSchedule_ServerWithoutItRefusesDelayedEvents(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const namespace = "/v1/namespaces/default"
	for body, status := range map[string]int{
		`{"path":"/a","deliver_at":"2100-01-01T00:00:00Z"}`: http.StatusUnprocessableEntity,
		`{"path":"/a","deliver_at":"soon"}`:                 http.StatusBadRequest,
	} {
		b.must(t, status, "POST "+namespace+"/events", body)
	}
	b.must(t, http.StatusUnprocessableEntity, "POST "+namespace+"/events", `1`,
		"Content-Type", "application/json", "Ce-Specversion", "1.0", "Ce-Id", "i", "Ce-Type", "t", "Ce-Source", "/s", "Ce-Path", "/a", "Ce-Deliverat", "2100-01-01T00:00:00Z")
	b.must(t, http.StatusCreated, "POST "+namespace+"/events", `{"path":"/a","deliver_at":"2000-01-01T00:00:00Z"}`)
	for _, line := range []string{
		"GET " + namespace + "/scheduled", "GET " + namespace + "/scheduled/x", "DELETE " + namespace + "/scheduled/x",
		"GET " + namespace + "/appointments", "GET " + namespace + "/appointments/x", "PUT " + namespace + "/appointments/x", "DELETE " + namespace + "/appointments/x",
	} {
		b.must(t, http.StatusServiceUnavailable, line, "")
	}
	require.Len(t, b.must(t, http.StatusOK, "GET "+namespace+"/events", "").list(t, "events"), 1)
	require.NotContains(t, b.must(t, http.StatusOK, "GET /v1/capabilities", "").text, "scheduled_events")
}
