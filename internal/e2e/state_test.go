package e2e_test

import (
	"fmt"
	"net/http"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/testkit/hooktest"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// shownIn returns the paths and ids of the events of an answer.
func shownIn(t *testing.T, r reply) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, item := range r.field(t, "events").([]any) {
		e, ok := item.(map[string]any)
		require.True(t, ok)
		path, _ := e["path"].(string)
		all[path], _ = e["id"].(string)
	}
	return all
}

// The gate is before every path: one whose last event may not be seen is left out, and does not show the one before it.
func TestState_HidesForbiddenPaths(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	s.must(t, http.StatusCreated, "PUT /v1/namespaces/elsewhere", `{}`)
	for _, who := range knownCallers() {
		if who != "uncleared" && who != "root" {
			s.must(t, http.StatusOK, "PUT /v1/principals/user:"+who, `{"clearance":{"level":"INTERNAL"}}`)
		}
	}
	c := gather(t, s, "acme", hooktest.New(t, nil).URL)
	const events, state = "/v1/namespaces/acme/events", "/v1/namespaces/acme/state"
	publish := func(id, path, label string) {
		s.must(t, http.StatusCreated, "POST "+events, fmt.Sprintf(
			`{"specversion":"1.0","type":"t","source":"/s","id":%q,"path":%q,"dataclassification":%q,"data":1}`, id, path, label),
			"Authorization", "Bearer "+s.token, "Content-Type", "application/cloudevents+json")
	}
	publish("open", "/a/raised", "PUBLIC")
	publish("raised", "/a/raised", "SECRET")
	publish("erased", "/a/erased", "PUBLIC")
	publish("elsewhere", "/b", "PUBLIC")
	s.must(t, http.StatusCreated, "POST /v1/namespaces/acme/tombstones", `{"path":"/a/erased"}`)

	all := map[string]string{"/a/b": c.event, "/a/raised": "raised", "/b": "elsewhere"}
	require.Equal(t, all, shownIn(t, s.must(t, http.StatusOK, "GET "+state+"?pattern=/*/**", "", as(s.token)...)))
	delete(all, "/a/raised")
	require.Equal(t, all, shownIn(t, s.must(t, http.StatusOK, "GET "+state, "", as(c.tokens["reader"])...)))
	delete(all, "/b")
	require.Equal(t, all, shownIn(t, s.must(t, http.StatusOK, "GET "+state, "", as(c.tokens["narrowed"])...)))
	require.Equal(t, all, shownIn(t, s.must(t, http.StatusOK, "GET "+state+"?pattern=/**", "", as(c.tokens["narrowed"])...)))
	require.Empty(t, shownIn(t, s.must(t, http.StatusOK, "GET "+state, "", as(c.tokens["seer"])...)))
	for _, path := range []string{"/a/raised", "/a/erased", "/b", "/none"} {
		s.must(t, http.StatusNotFound, "GET "+state+path, "", as(c.tokens["narrowed"])...)
	}
	s.must(t, http.StatusOK, "GET "+state+"/a/raised", "", as(s.token)...)
	s.must(t, http.StatusNotFound, "GET "+state+"/a/erased", "", as(s.token)...)
}

// Who may not know of a namespace does not learn from the capabilities what its events are called.
func TestCapabilities_HideForbiddenNamespaces(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	s.must(t, http.StatusCreated, "PUT /v1/namespaces/acme", `{"label":{"level":"INTERNAL"}}`)
	s.must(t, http.StatusCreated, "PUT /v1/namespaces/acme/event-types/merger.planned", `{"static_labels":{"kind":"merger"}}`)
	s.must(t, http.StatusCreated, "PUT /v1/namespaces/default/event-types/order.placed", `{"static_labels":{"kind":"order"}}`)
	known := func(token, query string) any {
		return s.must(t, http.StatusOK, "GET /v1/capabilities"+query, "", as(token)...).field(t, "coalesce_labels")
	}
	both := map[string]any{"merger.planned": []any{"kind"}, "order.placed": []any{"kind"}}
	require.Equal(t, both, known(s.token, ""))
	reader := s.grant(t, "user:reader", "*", "read").token
	delete(both, "merger.planned")
	require.Equal(t, both, known(reader, ""))
	require.Equal(t, both, known(reader, "?namespace=default"))
	s.must(t, http.StatusNotFound, "GET /v1/capabilities?namespace=acme", "", as(reader)...)
}

// A publisher finds its event in the state after the answer, with any number of others at once; and the state and the events
// after what it is as of are everything (S2-86, S2-87, S2-97).
func TestState_HasEveryAcknowledgedEvent(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	const events, state = "/v1/namespaces/default/events", "/v1/namespaces/default/state"
	odd, err := s.api.Publish(t.Context(), "default", sluice.Event{Path: "/x//é/a.b%2F"})
	require.NoError(t, err)
	last, err := s.api.StateOf(t.Context(), "default", odd[0].Path)
	require.NoError(t, err)
	require.Equal(t, odd[0].ID, last.ID)
	for who := range 4 {
		t.Run(strconv.Itoa(who), func(t *testing.T) {
			t.Parallel()
			for i := range 15 {
				path := "/k/" + strconv.Itoa((who+i)%9)
				stored := s.must(t, http.StatusCreated, "POST "+events, `{"path":"`+path+`","type":"t"}`).field(t, "events").([]any)[0].(map[string]any)
				seq, _ := stored["seq"].(float64)
				r := s.must(t, http.StatusOK, "GET "+state+"?pattern=/k/*", "")
				at, _ := r.field(t, "seq").(float64)
				require.GreaterOrEqual(t, at, seq)
				all := shownIn(t, r)
				since := fmt.Sprintf("GET %s?pattern=/k/*&since=%.0f&until=%.0f", events, seq-1, at)
				for p, id := range shownIn(t, s.must(t, http.StatusOK, since, "")) { // of each path the last
					require.Equal(t, id, all[p], "%s as of %.0f", p, at)
				}
			}
		})
	}
}
