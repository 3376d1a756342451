package httpapi_test

import (
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// S2-04, issue 3, 6: who, what, old and new, by which request.
func TestAudit_ReadsTheLedger(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.subscription(t, hook)
	at := "/v1/subscriptions/" + id
	b.must(t, http.StatusOK, "POST "+at+"/pause", "", "X-Request-Id", "the-request")
	rotated := b.must(t, http.StatusOK, "POST "+at+"/secret/rotate", "{}")
	b.must(t, http.StatusNoContent, "DELETE "+at, "")

	a := b.must(t, http.StatusOK, "GET /v1/audit", "")
	entries := a.list(t, "entries")
	require.Equal(t, []string{"subscription.delete", "subscription.rotate", "subscription.pause", "subscription.create"}, names(entries, "action"))
	require.NotContains(t, a.text, rotated.body["secret"])
	pause := entries[2]
	require.Equal(t, []any{"root", id, "default", "done", "the-request"},
		[]any{pause["actor"], pause["resource"], pause["namespace"], pause["outcome"], pause["request_id"]})
	require.Equal(t, map[string]any{"enabled": true, "state": "active"}, pause["old"])
	require.Equal(t, map[string]any{"enabled": false, "state": "paused"}, pause["new"])
	require.NotContains(t, entries[3], "old")
	require.NotContains(t, entries[0], "new")

	a = b.must(t, http.StatusOK, "GET /v1/audit?limit=3&resource="+id, "")
	require.Len(t, a.list(t, "entries"), 3)
	cursor, _ := a.body["next_cursor"].(string)
	a = b.must(t, http.StatusOK, "GET /v1/audit?limit=3&cursor="+cursor, "")
	require.Equal(t, []string{"subscription.create"}, names(a.list(t, "entries"), "action"))
	require.Empty(t, a.body["next_cursor"])

	hour := url.QueryEscape(time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
	for query, want := range map[string]int{
		"action=subscription.pause": 1, "action=subscription.*": 4, "action=namespace.*": 0, "actor=root": 4, "actor=system": 0,
		"namespace=default": 4, "namespace=acme": 0, "since=" + hour: 0, "until=" + hour: 4,
	} {
		require.Len(t, b.must(t, http.StatusOK, "GET /v1/audit?"+query, "").list(t, "entries"), want, query)
	}
	for _, query := range []string{"since=yesterday", "until=1", "action=*", "namespace=A", "limit=1001", "cursor=x", "colour=red"} {
		require.Equal(t, "invalid_request", b.must(t, http.StatusBadRequest, "GET /v1/audit?"+query, "").code(), query)
	}
	b.must(t, http.StatusUnauthorized, "GET /v1/audit", "", "Authorization", "Bearer nobody")
}
