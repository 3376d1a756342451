package e2e_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/testkit/hooktest"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// S2-104: who is told that a paused subscription is described otherwise, and asks, finds the new words; who made it, when,
// that it is paused and all the rest is what it was. A repeated pause is not announced.
func TestUpdated_LeavesTheRest(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	hook := hooktest.New(t, nil)
	g := s.grant(t, "user:ann", "scope:default", "subscribe")
	id := s.made(t, g.token, wish(hook.URL, `"description":"why one"`))
	s.must(t, http.StatusOK, "POST /v1/subscriptions/"+id+"/pause", "")
	shows := func() map[string]any {
		var is map[string]any
		require.NoError(t, json.Unmarshal([]byte(s.must(t, http.StatusOK, "GET /v1/subscriptions/"+id, "").text), &is))
		return is
	}
	told := func() (updates []sluice.Event) {
		page, err := s.api.Events(t.Context(), sluice.DefaultNamespace, client.EventsQuery{Pattern: "/_sys/subscriptions/*", Types: []string{sluice.TypeSubscriptionUpdated}})
		require.NoError(t, err)
		return page.Items
	}
	before := shows()
	s.must(t, http.StatusOK, "PATCH /v1/subscriptions/"+id, `{"description":"why two"}`)
	eventually(t, func() bool { return len(told()) == 1 }, "it is told")
	var data struct {
		State    sluice.State
		Revision float64
		Old, New map[string]any
	}
	require.NoError(t, json.Unmarshal(told()[0].Data, &data))
	require.Equal(t, map[string]any{"description": "why one"}, data.Old)
	require.Equal(t, map[string]any{"description": "why two"}, data.New)
	require.Equal(t, sluice.Paused, data.State)

	after := shows()
	require.Equal(t, "why two", after["description"])
	require.InEpsilon(t, data.Revision, after["revision"], 0)
	require.Equal(t, "user:ann", after["created_by"])
	for _, changed := range []string{"description", "revision", "updated_at"} {
		delete(before, changed)
		delete(after, changed)
	}
	require.Equal(t, before, after)

	s.must(t, http.StatusOK, "PATCH /v1/subscriptions/"+id, `{"description":"why two"}`)
	s.must(t, http.StatusOK, "POST /v1/subscriptions/"+id+"/resume", "") // which is told after it
	eventually(t, func() bool {
		page, err := s.api.Events(t.Context(), sluice.DefaultNamespace, client.EventsQuery{Pattern: "/_sys/subscriptions/*", Types: []string{sluice.TypeSubscriptionResumed}})
		return err == nil && len(page.Items) == 1
	}, "what comes after it is told")
	require.Len(t, told(), 1)
}
