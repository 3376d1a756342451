package httpapi_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNamespace_IsCreatedAndDeleted(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	a := b.must(t, http.StatusCreated, "PUT /v1/namespaces/acme", `{"description":"x","retention":{"max_age":"24h","max_bytes":1000000},"dedup_window":"1m"}`)
	require.Equal(t, "acme", a.body["name"])
	require.Equal(t, "24h0m0s", a.body["retention"].(map[string]any)["max_age"])
	tag := a.header.Get("ETag")
	require.NotEmpty(t, tag)
	a = b.must(t, http.StatusOK, "PUT /v1/namespaces/acme", `{"description":"y","retention":{"max_age":"48h"}}`, "If-Match", tag)
	require.Equal(t, "y", a.body["description"])
	a = b.must(t, http.StatusPreconditionFailed, "PUT /v1/namespaces/acme", `{}`, "If-Match", tag)
	require.Equal(t, "revision_mismatch", a.code())
	b.must(t, http.StatusCreated, "PUT /v1/namespaces/empty", ``)

	a = b.must(t, http.StatusOK, "GET /v1/namespaces/acme", "")
	require.Contains(t, a.body["usage"], "last_seq")
	a = b.must(t, http.StatusOK, "GET /v1/namespaces?limit=2", "")
	require.Equal(t, []string{"empty", "acme"}, names(a.list(t, "namespaces"), "name"), "newest first")
	cursor, _ := a.body["next_cursor"].(string)
	a = b.must(t, http.StatusOK, "GET /v1/namespaces?cursor="+cursor, "")
	require.Equal(t, []string{"default"}, names(a.list(t, "namespaces"), "name"))
	require.Empty(t, a.body["next_cursor"])

	b.must(t, http.StatusCreated, "POST /v1/subscriptions", `{"namespace":"acme","pattern":"/**","endpoint":{"url":"`+hook+`"}}`)
	b.must(t, http.StatusNoContent, "DELETE /v1/namespaces/acme", "")
	b.must(t, http.StatusNotFound, "GET /v1/namespaces/acme", "")
	require.Empty(t, b.must(t, http.StatusOK, "GET /v1/subscriptions", "").list(t, "subscriptions"))
}

func names(items []map[string]any, field string) []string {
	list := make([]string, len(items))
	for i, item := range items {
		list[i], _ = item[field].(string)
	}
	return list
}

// S0-07…10, C08, C09, C36, C39.
func TestSubscription_LivesThroughEveryCall(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	body := `{"pattern":"/orders/**","endpoint":{"url":"` + hook + `"},"idempotency_key":"k"}`
	made := b.must(t, http.StatusCreated, "POST /v1/subscriptions", body)
	id, _ := made.body["id"].(string)
	at := "/v1/subscriptions/" + id
	require.Equal(t, at, made.header.Get("Location"))
	secret, _ := made.body["secret"].(string)
	require.True(t, strings.HasPrefix(secret, "whsec_"))
	require.Equal(t, secret, made.body["endpoint"].(map[string]any)["secret"])
	require.Equal(t, "active", made.body["state"])
	require.Equal(t, "root", made.body["created_by"])
	require.InDelta(t, 3600, made.body["replay_window_s"], 0)
	require.Contains(t, made.body, "last_event_at")

	again := b.must(t, http.StatusOK, "POST /v1/subscriptions", body)
	require.Equal(t, id, again.body["id"])
	require.NotContains(t, again.text, secret)
	got := b.must(t, http.StatusOK, "GET "+at, "")
	require.NotContains(t, got.text, secret)
	require.NotContains(t, got.body, "secret")
	require.Equal(t, secret[len(secret)-4:], got.body["secret_hint"])
	tag := got.header.Get("ETag")
	require.Equal(t, strconv.Quote(strconv.Itoa(int(got.body["revision"].(float64)))), tag)

	patched := b.must(t, http.StatusOK, "PATCH "+at, `{"description":"d"}`, "If-Match", tag, "Content-Type", "application/merge-patch+json")
	require.Equal(t, "d", patched.body["description"])
	require.NotContains(t, patched.text, secret)
	require.Equal(t, "revision_mismatch", b.must(t, http.StatusPreconditionFailed, "PATCH "+at, `{"description":"e"}`, "If-Match", tag).code())
	b.must(t, http.StatusOK, "PATCH "+at, `{"description":"e"}`, "If-Match", "*")

	require.Equal(t, "paused", b.must(t, http.StatusOK, "POST "+at+"/pause", "").body["state"])
	require.Len(t, b.must(t, http.StatusOK, "GET /v1/subscriptions?state=paused&namespace=default&mode=push", "").list(t, "subscriptions"), 1)
	require.Equal(t, "active", b.must(t, http.StatusOK, "POST "+at+"/resume", "").body["state"])
	rotated := b.must(t, http.StatusOK, "POST "+at+"/secret/rotate", `{"overlap":"1h"}`)
	require.NotEqual(t, secret, rotated.body["secret"])
	require.NotEmpty(t, b.must(t, http.StatusOK, "POST "+at+"/secret/rotate", "").body["secret"])
	require.Equal(t, "active", b.must(t, http.StatusOK, "GET "+at+"/status", "").body["state"])

	require.Empty(t, b.must(t, http.StatusNoContent, "DELETE "+at, "").text)
	require.Equal(t, "subscription_not_found", b.must(t, http.StatusNotFound, "GET "+at, "").code())
}

// S1-116, C09.
func TestSubscription_TakesTheClientsID(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	body := `{"pattern":"/**","endpoint":{"url":"` + hook + `"}}`
	require.Contains(t, b.must(t, http.StatusCreated, "PUT /v1/subscriptions/mine", body).body, "secret")
	require.NotContains(t, b.must(t, http.StatusOK, "PUT /v1/subscriptions/mine", body).body, "secret")
	require.Equal(t, "subscription_conflict", b.must(t, http.StatusConflict, "PUT /v1/subscriptions/mine", strings.Replace(body, "/**", "/*", 1)).code())
	require.Equal(t, "mine", b.must(t, http.StatusOK, "POST /v1/subscriptions", strings.Replace(body, "{", `{"id":"mine",`, 1)).body["id"])
}

// S0-07…29.
func TestSubscription_UnderstandsTheShapeOfS0(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	body := `{"target":"scope:global","on_change":"webhook","webhook_url":"` + hook + `","event_filter":["fact_assert"],"scope":"global","idempotency_key":"k","wake_agent_id":null}`
	made := b.must(t, http.StatusCreated, "POST /v1/subscriptions", body)
	require.Equal(t, "scope:global", made.body["target"])
	require.Equal(t, "fact", made.body["policy"].(map[string]any)["envelope"])
	require.Equal(t, made.body["id"], b.must(t, http.StatusOK, "POST /v1/subscriptions", body).body["id"])
}

func TestSample_IsSentOnRequest(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := receiver(t)
	id := b.subscription(t, r.URL)
	a := b.must(t, http.StatusOK, "POST /v1/subscriptions/"+id+"/test", "")
	require.Equal(t, "delivered", a.body["outcome"])
	require.InDelta(t, 204, a.body["status"], 0)
	require.NotEmpty(t, r.Wait(1)[0].Header.Get("Webhook-Signature"))
}

func TestPublic_RoutesNeedNoToken(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for path, want := range map[string]string{
		"/healthz": `"ok":true`, "/readyz": `"ok":true`, "/metrics": "metrics 1", "/openapi.yaml": "openapi: 3.1.0", "/.well-known/jwks.json": `"keys"`,
	} {
		a := b.must(t, http.StatusOK, "GET "+path, "", "Authorization", "")
		require.Contains(t, a.text, want, path)
		require.NotEmpty(t, a.header.Get("X-Request-Id"))
	}
}

func TestCapabilities_ListTheFeatures(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	a := b.must(t, http.StatusOK, "GET /v1/capabilities", "")
	require.Equal(t, "v1", a.body["wire_version"])
	require.Equal(t, "test", a.body["version"])
	require.Equal(t, true, a.body["features"].(map[string]any)["push"])
	require.NotContains(t, a.text, "false")
	require.InDelta(t, 64<<10, a.body["limits"].(map[string]any)["body_bytes"], 0)
	require.Equal(t, map[string]any{}, a.body["coalesce_labels"])
}

// An event type that is registered is advertised at once, with its static labels and nothing of its data (S2-65, S2-72, S2-75).
func TestCapabilities_ListLabelsOfEventTypes(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.must(t, http.StatusCreated, "PUT /v1/namespaces/acme", `{}`)
	put := func(ns, name, spec string) {
		b.must(t, http.StatusCreated, "PUT /v1/namespaces/"+ns+"/event-types/"+name, spec)
	}
	put("default", "order.placed", `{"static_labels":{"region":"eu","kind":"order"},"schema":{"properties":{"total":{"type":"number"}}}}`)
	put("default", "order.paid", `{}`)
	put("acme", "order.placed", `{"static_labels":{"kind":"order","shop":"7"}}`)
	put("acme", "other", `{"static_labels":{"a":"b"}}`)
	require.Equal(t, map[string]any{
		"order.placed": []any{"kind", "region", "shop"}, "order.paid": []any{}, "other": []any{"a"},
	}, b.must(t, http.StatusOK, "GET /v1/capabilities", "").body["coalesce_labels"])
	require.Equal(t, map[string]any{"order.placed": []any{"kind", "region"}, "order.paid": []any{}},
		b.must(t, http.StatusOK, "GET /v1/capabilities?namespace=default", "").body["coalesce_labels"])
	b.must(t, http.StatusNoContent, "DELETE /v1/namespaces/acme/event-types/other", "")
	require.NotContains(t, b.must(t, http.StatusOK, "GET /v1/capabilities", "").body["coalesce_labels"], "other")
	b.must(t, http.StatusBadRequest, "GET /v1/capabilities?types=order.paid", "")
	b.must(t, http.StatusNotFound, "GET /v1/capabilities?namespace=nowhere", "")
}

func TestAuth_RefusesCallersWithoutTheToken(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, authorization := range []string{"", "Bearer", "Bearer ", "Bearer wrong", "Bearer " + token + "x", "Basic " + token, token} {
		for _, line := range []string{"GET /v1/subscriptions", "POST /v1/namespaces/default/events", "GET /v1/nothing", "GET /v1", "GET /%76%31/subscriptions", "DELETE /v1/namespaces/default"} {
			a := b.must(t, http.StatusUnauthorized, line, "{}", "Authorization", authorization)
			require.Equal(t, "unauthenticated", a.code())
			require.Contains(t, a.header.Get("WWW-Authenticate"), "Bearer")
		}
	}
	b.must(t, http.StatusOK, "GET /v1/subscriptions", "", "Authorization", "bearer "+token)
}

func TestRoute_WrongMethodGetsTheAllowedOnes(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	a := b.must(t, http.StatusMethodNotAllowed, "PUT /v1/subscriptions", "{}")
	require.Contains(t, a.header.Get("Allow"), "POST")
}

// Codes and statuses of errors.
func TestRequest_RefusalsHaveCodesAndStatuses(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.subscription(t, hook)
	at := "/v1/subscriptions/" + id
	s0 := `{"target":"scope:default","on_change":"webhook","webhook_url":"` + hook + `"`
	own := `{"pattern":"/x","endpoint":{"url":"` + hook + `"}`
	tests := []struct {
		name, line, body string
		status           int
		code             string
	}{
		{"no such address", "GET /v1/nothing", "", 404, "not_found"},
		{"no such address outside", "GET /nothing", "", 404, "not_found"},
		{"no such method", "DELETE /v1/capabilities", "", 405, "method_not_allowed"},
		{"no such method on one", "POST " + at, "{}", 405, "method_not_allowed"},

		{"a namespace's name", "PUT /v1/namespaces/No", "{}", 400, "invalid_request"},
		{"a namespace's field", "PUT /v1/namespaces/acme", `{"retentions":{}}`, 400, "invalid_request"},
		{"a namespace's duration", "PUT /v1/namespaces/acme", `{"dedup_window":5}`, 400, "invalid_request"},
		{"no such namespace", "GET /v1/namespaces/nowhere", "", 404, "not_found"},
		{"no namespace to delete", "DELETE /v1/namespaces/nowhere", "", 404, "not_found"},
		{"the default namespace", "DELETE /v1/namespaces/default", "", 409, "conflict"},
		{"a cursor of namespaces", "GET /v1/namespaces?cursor=x", "", 400, "invalid_request"},

		{"subscription not found", "GET /v1/subscriptions/none", "", 404, "subscription_not_found"},
		{"none to change", "PATCH /v1/subscriptions/none", "{}", 404, "subscription_not_found"},
		{"none to delete", "DELETE /v1/subscriptions/none", "", 404, "subscription_not_found"},
		{"none to pause", "POST /v1/subscriptions/none/pause", "", 404, "subscription_not_found"},
		{"none to resume", "POST /v1/subscriptions/none/resume", "", 404, "subscription_not_found"},
		{"none to rotate", "POST /v1/subscriptions/none/secret/rotate", "", 404, "subscription_not_found"},
		{"none to test", "POST /v1/subscriptions/none/test", "", 404, "subscription_not_found"},
		{"none to look at", "GET /v1/subscriptions/none/status", "", 404, "subscription_not_found"},
		{"no deliveries", "GET /v1/subscriptions/none/deliveries", "", 404, "subscription_not_found"},
		{"no delivery", "GET " + at + "/deliveries/none", "", 404, "not_found"},
		{"no delivery of none", "GET /v1/subscriptions/none/deliveries/none", "", 404, "subscription_not_found"},
		{"no body", "POST /v1/subscriptions", "", 400, "invalid_request"},
		{"an unknown field", "POST /v1/subscriptions", own + `,"colour":1}`, 400, "invalid_request"},
		{"an unknown filter (S4-78)", "POST /v1/subscriptions", own + `,"filter":{"colour":["red"]}}`, 422, "unknown_filter"},
		{"both shapes (S4-75)", "POST /v1/subscriptions", s0 + `,"pattern":"/a"}`, 422, "ambiguous_subscription"},
		{"wake (S0-24, S0-87)", "POST /v1/subscriptions", `{"target":"scope:default","on_change":"wake"}`, 422, "wake_not_supported"},
		{"another mode", "POST /v1/subscriptions", own + `,"mode":"pull"}`, 422, "unprocessable"},
		{"no target (S0-19)", "POST /v1/subscriptions", `{"on_change":"webhook","webhook_url":"` + hook + `"}`, 400, "invalid_request"},
		{"http (S0-22)", "POST /v1/subscriptions", strings.Replace(s0, "https", "http", 1) + "}", 422, "insecure_url"},
		{"an address (S1-143)", "POST /v1/subscriptions", `{"pattern":"/x","endpoint":{"url":"https://169.254.169.254/"}}`, 422, "blocked_address"},
		{"a secret (S4-58)", "POST /v1/subscriptions", `{"pattern":"/x","endpoint":{"url":"` + hook + `","secret":"x"}}`, 422, "secret_too_short"},
		{"a namespace", "POST /v1/subscriptions", own + `,"namespace":"nowhere"}`, 404, "not_found"},
		{"an id", "PUT /v1/subscriptions/a%20b", own + `}`, 400, "invalid_request"},
		{"two ids", "PUT /v1/subscriptions/a", own + `,"id":"b"}`, 400, "invalid_request"},
		{"a field that stays", "PATCH " + at, `{"pattern":"/y"}`, 400, "invalid_request"},
		{"an overlap", "POST " + at + "/secret/rotate", `{"overlap":"-1h"}`, 400, "invalid_request"},
		{"an overlap's field", "POST " + at + "/secret/rotate", `{"overlaps":"1h"}`, 400, "invalid_request"},
		{"a limit", "GET /v1/subscriptions?limit=1001", "", 400, "invalid_request"},
		{"no limit", "GET /v1/subscriptions?limit=0", "", 400, "invalid_request"},
		{"a parameter", "GET /v1/subscriptions?colour=red", "", 400, "invalid_request"},
		{"a parameter twice", "GET /v1/subscriptions?state=active&state=paused", "", 400, "invalid_request"},
		{"a cursor", "GET /v1/subscriptions?cursor=x", "", 400, "invalid_request"},
		{"a delivery's state", "GET " + at + "/deliveries?state=fine", "", 400, "invalid_request"},
		{"a delivery's since", "GET " + at + "/deliveries?since=now", "", 400, "invalid_request"},
		{"a delivery's cursor", "GET " + at + "/deliveries?cursor=x", "", 400, "invalid_request"},

		{"events of no namespace", "GET /v1/namespaces/nowhere/events", "", 404, "not_found"},
		{"an event in no namespace", "POST /v1/namespaces/nowhere/events", `{"path":"/a"}`, 404, "not_found"},
		{"event not found", "GET /v1/namespaces/default/events/none", "", 404, "not_found"},
		{"no such place", "GET /v1/namespaces/default/events/77", "", 404, "not_found"},
		{"a pattern", "GET /v1/namespaces/default/events?pattern=a", "", 400, "invalid_request"},
		{"a since", "GET /v1/namespaces/default/events?since=%00", "", 400, "invalid_request"},
		{"a since that names no event", "GET /v1/namespaces/default/events?since=none", "", 404, "not_found"},
		{"an events' cursor", "GET /v1/namespaces/default/events?cursor=x", "", 400, "invalid_request"},
		{"a body that is too large", "POST /v1/namespaces/default/events", `{"path":"/a","data":"` + strings.Repeat("x", 70<<10) + `"}`, 413, "too_large"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a := b.must(t, tt.status, tt.line, tt.body)
			require.Equal(t, tt.code, a.code(), a.text)
			require.Equal(t, false, a.body["ok"])
			require.Equal(t, a.header.Get("X-Request-Id"), a.body["request_id"])
			require.NotEmpty(t, a.body["error"].(map[string]any)["message"])
			require.Contains(t, a.body["error"], "details")
		})
	}
}

func TestIfMatch_RefusesMalformedTags(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.subscription(t, hook)
	for _, tag := range []string{"x", `"x"`, "0", `"-1"`} {
		require.Equal(t, "invalid_request", b.must(t, http.StatusBadRequest, "PATCH /v1/subscriptions/"+id, "{}", "If-Match", tag).code())
	}
	b.must(t, http.StatusPreconditionFailed, "PATCH /v1/subscriptions/"+id, "{}", "If-Match", `W/"99999"`)
}
