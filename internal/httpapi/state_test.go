package httpapi_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestState_IsReadPageByPage(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const events, state = "/v1/namespaces/default/events", "/v1/namespaces/default/state"
	empty := b.must(t, http.StatusOK, "GET "+state, "")
	require.JSONEq(t, `{"seq":0,"events":[],"next_cursor":""}`, empty.text)
	for _, path := range []string{"/a", "/a/b.c", "/d", "/a"} {
		b.must(t, http.StatusCreated, "POST "+events, `{"path":"`+path+`","type":"t","data":{"n" : 1.0}}`)
	}
	first := b.must(t, http.StatusOK, "GET "+state+"?limit=2", "")
	require.InDelta(t, 4, first.body["seq"], 0)
	require.Equal(t, []any{"/a/b.c", "/d"}, paths(t, first))
	require.Contains(t, first.text, `{"n" : 1.0}`, "data stays byte for byte what it is")
	cursor, _ := first.body["next_cursor"].(string)
	b.must(t, http.StatusCreated, "POST "+events, `{"path":"/a","type":"later"}`)
	rest := b.must(t, http.StatusOK, "GET "+state+"?limit=2&at_seq=4&cursor="+url.QueryEscape(cursor), "")
	require.InDelta(t, 4, rest.body["seq"], 0)
	require.Equal(t, []any{"/a"}, paths(t, rest))
	require.Equal(t, "t", rest.list(t, "events")[0]["type"], "what comes later is of another moment")
	require.Empty(t, rest.body["next_cursor"])

	since := b.must(t, http.StatusOK, "GET "+events+"?since=4", "")
	require.Equal(t, []any{"/a"}, paths(t, since), "what follows the state")
	require.Equal(t, []any{"/a/b.c"}, paths(t, b.must(t, http.StatusOK, "GET "+state+"?pattern=/a/*", "")))
	require.Equal(t, []any{"/a"}, paths(t, b.must(t, http.StatusOK, "GET "+state+"?at_seq=1", "")))
}

func paths(t *testing.T, a *answer) []any {
	t.Helper()
	var all []any
	for _, e := range a.list(t, "events") {
		all = append(all, e["path"])
	}
	return all
}

func TestState_OfOnePath(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const state = "/v1/namespaces/default/state"
	for _, kind := range []string{"first", "second"} {
		b.must(t, http.StatusCreated, "POST /v1/namespaces/default/events", `{"path":"/a/b c/é","type":"`+kind+`"}`)
	}
	got := b.must(t, http.StatusOK, "GET "+state+"/a/b%20c/%C3%A9", "")
	require.Equal(t, "second", got.body["type"])
	require.Equal(t, "application/cloudevents+json", got.header.Get("Content-Type"))
	require.Equal(t, "first", b.must(t, http.StatusOK, "GET "+state+"/a/b%20c/%C3%A9?at_seq=1", "").body["type"])
	b.must(t, http.StatusNotFound, "GET "+state+"/a/b", "")
}

func TestState_RefusesInvalidRequests(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.must(t, http.StatusCreated, "POST /v1/namespaces/default/events", `{"path":"/a","type":"t"}`)
	for query, status := range map[string]int{
		"/v1/namespaces/default/state?colour=red":          http.StatusBadRequest,
		"/v1/namespaces/default/state?cel=1%2B":            http.StatusBadRequest,
		"/v1/namespaces/default/state?filter={%22x%22:1}":  http.StatusUnprocessableEntity,
		"/v1/namespaces/default/state?pattern=a":           http.StatusBadRequest,
		"/v1/namespaces/default/state?at_seq=0":            http.StatusBadRequest,
		"/v1/namespaces/default/state?at_seq=x":            http.StatusBadRequest,
		"/v1/namespaces/default/state?at_seq=2":            http.StatusBadRequest, // it is to come
		"/v1/namespaces/default/state?limit=1001":          http.StatusBadRequest,
		"/v1/namespaces/default/state?cursor=1":            http.StatusBadRequest,
		"/v1/namespaces/default/state?cursor=1.2":          http.StatusBadRequest,
		"/v1/namespaces/default/state?cursor=1.0":          http.StatusBadRequest,
		"/v1/namespaces/default/state?cursor=1.x":          http.StatusBadRequest,
		"/v1/namespaces/default/state?cursor=01.1":         http.StatusBadRequest,
		"/v1/namespaces/default/state?cursor=3.2&at_seq=2": http.StatusBadRequest,
		"/v1/namespaces/default/state/a?pattern=/a":        http.StatusBadRequest,
		"/v1/namespaces/default/state/a?at_seq=none":       http.StatusBadRequest,
		"/v1/namespaces/nowhere/state":                     http.StatusNotFound,
		"/v1/namespaces/nowhere/state/a":                   http.StatusNotFound,
	} {
		b.must(t, status, "GET "+query, "")
	}
}

// C11: a state of which something is gone is refused as events are, with both sequences.
func TestState_BeforeTheLogSaysWhereItBegins(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.must(t, http.StatusCreated, "PUT /v1/namespaces/small", `{"retention":{"max_bytes":2000}}`)
	const small = "/v1/namespaces/small"
	publish := func(from, to int) {
		for i := from; i < to; i++ {
			b.must(t, http.StatusCreated, "POST "+small+"/events", fmt.Sprintf(`{"path":"/p/%d","data":%q}`, i, strings.Repeat("x", 200)))
		}
	}
	publish(0, 4)
	page := b.must(t, http.StatusOK, "GET "+small+"/state?limit=1", "")
	publish(4, 20)
	next, _ := page.body["next_cursor"].(string)
	for _, query := range []string{"?at_seq=1", "?cursor=" + next, "/p/0?at_seq=2"} {
		a := b.must(t, http.StatusGone, "GET "+small+"/state"+query, "")
		require.Equal(t, "replay_window_exceeded", a.code())
		details, _ := a.body["error"].(map[string]any)["details"].(map[string]any)
		require.Greater(t, details["oldest_available_seq"], float64(2))
		require.InDelta(t, 20, details["current_seq"], 0)
	}
	require.NotEmpty(t, b.must(t, http.StatusOK, "GET "+small+"/state", "").list(t, "events"))
	b.must(t, http.StatusNotFound, "GET "+small+"/state/p/0", "")
}
