package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// acts returns the actions on a resource in the ledger, oldest first.
func (s *running) acts(t *testing.T, resource string) (acts []string) {
	t.Helper()
	var page struct {
		Entries []struct{ Action, Outcome, Actor string }
	}
	require.NoError(t, json.Unmarshal([]byte(s.must(t, http.StatusOK, "GET /v1/audit?resource="+resource, "").text), &page))
	for _, e := range page.Entries {
		require.Contains(t, []string{"root", "system"}, e.Actor)
		acts = append(acts, e.Action)
	}
	slices.Reverse(acts)
	return acts
}

// S3-50, S3-101, S3-127: each act on a mirror is in the ledger, and each of its turns is a system event. The status and the
// metrics have how far the mirror is, and what it lacks.
func TestMirror_ActsAndTurnsAreSeen(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	mirrorable(t, s)
	s.publishes(t, "low", "/a one", "/b two")
	s.must(t, http.StatusCreated, "POST /v1/namespaces/low/events", `{"specversion":"1.0","type":"t","source":"/s","id":"three","path":"/c","dataclassification":"TOP_SECRET","data":1}`)
	s.must(t, http.StatusCreated, "POST /v1/subscriptions", `{"id":"m","mode":"mirror","namespace":"high","source":"low","depth":"full"}`)
	s.syncs(t)
	s.must(t, http.StatusCreated, "POST /v1/namespaces/low/tombstones", `{"path":"/a"}`)
	st := s.syncs(t)
	require.Equal(t, []any{1.0, 1.0, 1.0, 0.0}, []any{st.field(t, "mirrored_count"), st.field(t, "deleted_count"), st.field(t, "gap_count"), st.field(t, "lag_items")})
	require.Less(t, st.field(t, "lag_seconds"), 60.0)
	require.Contains(t, st.text, `"cause":"label"`)
	metrics := s.must(t, http.StatusOK, "GET /metrics", "").text
	for _, line := range []string{"sluice_mirror_state%s 0", "sluice_mirror_lag_items%s 0", "sluice_mirror_gaps_total%s 1", "sluice_mirror_entries_total%s 3"} {
		require.Contains(t, metrics, fmt.Sprintf(line, `{namespace="high",subscription="m"}`))
	}

	s.must(t, http.StatusOK, "PATCH /v1/subscriptions/m", `{"weight":1}`)
	s.must(t, http.StatusOK, "POST /v1/subscriptions/m/suspend", "")
	s.must(t, http.StatusOK, "POST /v1/subscriptions/m/resume", "")
	s.must(t, http.StatusNoContent, "DELETE /v1/subscriptions/m", "")
	require.Equal(t, []string{"mirror.create", "mirror.update", "mirror.suspend", "mirror.resume", "mirror.delete"}, s.acts(t, "m"))
	eventually(t, func() bool {
		kinds := s.typesOn(t, "high", "/_sys/subscriptions/m")
		slices.Sort(kinds)
		return slices.Equal(kinds, []string{"mirror.created", "mirror.deleted", "mirror.gap", "mirror.resumed", "mirror.suspended", "mirror.updated"})
	}, "the system events")
	require.NotContains(t, s.must(t, http.StatusOK, "GET /metrics", "").text, `subscription="m"`)
}
