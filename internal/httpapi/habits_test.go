package httpapi_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/authz"
	"github.com/sluice-io/sluice/internal/grants"
	"github.com/sluice-io/sluice/internal/httpapi"
)

// habit is a wrong input of users of other systems, and parts of its answer: the form to type.
type habit struct {
	line, body string
	status     int
	field      string // at fault
	says       []string
	headers    []string
}

const subs, evts = "POST /v1/subscriptions", "POST /v1/namespaces/default/events"

// with returns the body of a subscription that is valid but for the addition.
func with(addition string) string {
	return `{"pattern":"/**","endpoint":{"url":"` + hook + `"},` + addition + `}`
}

func toEndpoint(url string) string { return `{"pattern":"/**","endpoint":{"url":"` + url + `"}}` }

// habits are the first 32 wrong inputs of issue 18, by their number.
func habits() map[string]habit {
	const example = `{"pattern":"/orders/**","endpoint":{"url":"https://example.com/hook"}}`
	return map[string]habit{
		"1 no token":             {subs, "", 401, "", []string{"Authorization: Bearer <token>", "root.token"}, []string{"Authorization", ""}},
		"2 a wrong token":        {subs, "", 401, "", []string{"neither this server's root token nor one of its grants'"}, []string{"Authorization", "Bearer x"}},
		"3 url":                  {subs, `{"url":"https://example.com/hook"}`, 400, "url", []string{`use endpoint.url: {"endpoint":{"url":`}, nil},
		"5 an empty body":        {subs, ``, 400, "", []string{"the body is empty", example}, nil},
		"5 an empty event":       {evts, ``, 400, "", []string{"the body is empty", `{"path":"/orders/42"`}, nil},
		"6 half a body":          {subs, "{\n \"endpoint\":{", 400, "", []string{"line 2, column 14", "ends too early"}, nil},
		"6 half a batch":         {evts, `[{"path":"/a"},`, 400, "", []string{"line 1, column 16", "ends too early"}, nil},
		"7 nothing in it":        {subs, `{}`, 422, "pattern", []string{"pattern", "endpoint.url", example}, nil},
		"8 no endpoint":          {subs, `{"pattern":"/**"}`, 400, "endpoint.url", []string{"endpoint.url is missing", "https://example.com/hook"}, nil},
		"9 endpoint as a string": {subs, `{"pattern":"/**","endpoint":"https://example.com/hook"}`, 400, "endpoint", []string{`use an object such as {"url":"https://example.com/hook"}`}, nil},
		"10 eventTypes":          {subs, with(`"eventTypes":["a"]`), 400, "eventTypes", []string{`use filter.types: {"filter":{"types":[`}, nil},
		"10 enabled_events":      {subs, with(`"enabled_events":["a"]`), 400, "enabled_events", []string{`use filter.types`}, nil},
		"10 event_types within":  {subs, with(`"filter":{"event_types":["a"]}`), 422, "filter.event_types", []string{`use filter.types`}, nil},
		"10 topics":              {subs, with(`"topics":["a"]`), 400, "topics", []string{`use filter.types`}, nil},
		"11 retry":               {subs, with(`"retry":"aggressive"`), 400, "retry", []string{`use policy.retry: {"policy":{"retry":{"preset":"standard"}}}`}, nil},
		"12 signing":             {subs, with(`"signing":"x"`), 400, "signing", []string{`use policy.signature: {"policy":{"signature":{"scheme":"standard"}}}`}, nil},
		"12 secret":              {subs, with(`"secret":"x"`), 400, "secret", []string{`use endpoint.secret`}, nil},
		"13 orders.*":            {subs, `{"pattern":"orders.*","endpoint":{"url":"` + hook + `"}}`, 400, "pattern", []string{`write "/orders/*"`}, nil},
		"13 orders.>":            {subs, `{"pattern":"orders.>","endpoint":{"url":"` + hook + `"}}`, 400, "pattern", []string{`write "/orders/**"`}, nil},
		"13 a star":              {subs, `{"pattern":"*","endpoint":{"url":"` + hook + `"}}`, 400, "pattern", []string{`write "/**" for all events`}, nil},
		"14 a private address":   {subs, toEndpoint("https://10.0.0.1/x"), 422, "endpoint.url", []string{"use a public address", "webhooks.allow_cidrs"}, nil},
		"15 http":                {subs, toEndpoint("http://example.com/x"), 422, "endpoint.url", []string{"use https", "this machine only", "http://127.0.0.1:9000/hook"}, nil},
		"16 no scheme":           {subs, toEndpoint("127.0.0.1:9000/hook"), 400, "endpoint.url", []string{"absolute URL such as https://example.com/hook"}, nil},
		"17 another body":        {"PUT /v1/subscriptions/same", `{"pattern":"/other","endpoint":{"url":"` + hook + `"}}`, 409, "", []string{"PATCH (sluice sub edit)", "sluice sub rm"}, nil},
		"18 an id with a space":  {subs, with(`"id":"My Orders"`), 400, "id", []string{"use 1 to 64 of A-Z, a-z, 0-9, _ and -"}, nil},
		"19 no such namespace":   {"POST /v1/namespaces/acme/events", `{"path":"/a"}`, 404, "", []string{"PUT /v1/namespaces/acme", "sluice ns put acme"}, nil},
		"19 no such one":         {"GET /v1/subscriptions/none", ``, 404, "", []string{"GET /v1/subscriptions", "sluice sub ls"}, nil},
		"20 half an expression":  {subs, with(`"filter":{"cel":"event.data.total > "}`), 400, "filter.cel", []string{"line 1, column 20: unexpected end of the expression; expected a value"}, nil},
		"20 a typing error":      {subs, with(`"filter":{"cel":"evnt.data.total > 5"}`), 400, "filter.cel", []string{"column 1", "'evnt'; use the variable event, as in event.type"}, nil},
		"22 no path":             {evts, `{"type":"a"}`, 400, "path", []string{`set a path such as "/orders/42"`}, nil},
		"23 no type":             {evts, `{"path":"/orders/42"}`, 201, "", []string{`"type":"message"`}, nil},
		"24 eventType":           {evts, `{"path":"/a","eventType":"b"}`, 400, "eventType", []string{`use type: {"type":"order.created"}`}, nil},
		"24 payload":             {evts, `{"path":"/a","payload":{}}`, 400, "payload", []string{`use data: {"data":`}, nil},
		"24 data_schema":         {evts, `{"path":"/a","data_schema":"x"}`, 400, "data_schema", []string{`use a CloudEvent: {"specversion":"1.0"`}, nil},
		"25 no slash":            {evts, `{"path":"orders/42"}`, 400, "path", []string{`write "/orders/42"`}, nil},
		"25 a star":              {evts, `{"path":"/a/*"}`, 400, "path", []string{"* is allowed in patterns, not in paths"}, nil},
		"26 much data":           {evts, `{"path":"/a","data":"` + strings.Repeat("x", 70_000) + `"}`, 413, "", []string{"the body of 70023 bytes is larger than 65536 bytes", `"limit":65536`}, nil},
		"27 a content type":      {evts, `{}`, 400, "", []string{"application/json", "application/cloudevents-batch+json"}, []string{"Content-Type", "application/x-ndjson"}},
		"28 a limit":             {"GET /v1/subscriptions?limit=abc", ``, 400, "limit", []string{"use 1 to 1000"}, nil},
		"28 a parameter":         {"GET /v1/subscriptions?foo=1", ``, 400, "foo", []string{"valid parameters are namespace, mode"}, nil},
		"29 a state":             {"GET /v1/subscriptions/same/deliveries?state=failing", ``, 400, "state", []string{"use one of delivered, retrying, held"}, nil},
		"30 replays":             {"POST /v1/subscriptions/same/replays", `{}`, 405, "", []string{"only GET; use POST /v1/subscriptions/same/replay"}, nil},
		"31 a name":              {"POST /v1/grants", `{"principal":"bob","verbs":["read"],"object":"scope:default","expires_at":"2026-12-01T00:00:00Z"}`, 400, "principal", []string{"user:, ai_agent:, service: or system:"}, nil},
	}
}

// Issue 18: each of the inputs that users of Svix, Stripe, Outpost, Convoy and NATS begin with is answered
// by the form to type instead, and names the field at fault.
func TestHabits_AreAnsweredByTheRightForm(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	opts := b.options()
	opts.Authority = grants.New(grants.Deps{Index: authz.NewIndex(), Now: time.Now})
	b.http = httptest.NewServer(httpapi.New(opts).Handler())
	t.Cleanup(b.http.Close)
	b.must(t, http.StatusCreated, "PUT /v1/subscriptions/same", toEndpoint(hook))
	for name, h := range habits() {
		a := b.do(t, h.line, h.body, h.headers...)
		require.Equal(t, h.status, a.status, "%s: %s", name, a.text)
		text := strings.ReplaceAll(a.text, `\"`, `"`)
		for _, says := range h.says {
			require.Contains(t, text, says, name)
		}
		require.NotContains(t, text, `\u003`, name)
		failure, _ := a.body["error"].(map[string]any)
		details, _ := failure["details"].(map[string]any)
		field, _ := details["field"].(string)
		require.Equal(t, h.field, field, "%s: %s", name, a.text)
		if h.status == http.StatusMethodNotAllowed {
			require.Equal(t, "OPTIONS, GET", a.header.Get("Allow"))
		}
		requireRule(t, name, a)
	}
}

// requireRule is the rule of docs/errors.md: 400 is a request that cannot be read, and has one code.
func requireRule(t *testing.T, name string, a *answer) {
	t.Helper()
	require.Equal(t, a.status == http.StatusBadRequest, a.code() == "invalid_request", name)
}

// Issue 18, input 4.
func TestSubscriptions_BelowNamespace(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.must(t, http.StatusCreated, "PUT /v1/namespaces/acme", `{}`)
	b.must(t, http.StatusCreated, "POST /v1/subscriptions", toEndpoint(hook))
	const there = "/v1/namespaces/acme/subscriptions"
	made := b.must(t, http.StatusCreated, "POST "+there, toEndpoint(hook))
	require.Equal(t, "acme", made.body["namespace"])
	b.must(t, http.StatusOK, "POST "+there, `{"namespace":"acme","pattern":"/**","endpoint":{"url":"`+hook+`"}}`)
	s0 := b.must(t, http.StatusCreated, "POST "+there, `{"target":"entity:urn:x","on_change":"webhook","webhook_url":"`+hook+`"}`)
	require.Equal(t, "acme", s0.body["namespace"])
	other := b.must(t, http.StatusUnprocessableEntity, "POST "+there, `{"namespace":"default","pattern":"/**","endpoint":{"url":"`+hook+`"}}`)
	require.Equal(t, "ambiguous_subscription", other.code())
	require.Len(t, b.must(t, http.StatusOK, "GET "+there, "").list(t, "subscriptions"), 2)
	require.Len(t, b.must(t, http.StatusOK, "GET /v1/subscriptions", "").list(t, "subscriptions"), 3)
	b.must(t, http.StatusBadRequest, "GET "+there+"?namespace=default", "")
}

func TestURLs_WrongOnesNameTheRightOne(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for line, says := range map[string]string{
		"GET /subscriptions":                         "use /v1/subscriptions\"",
		"GET /api/v1/subscriptions/x":                "use /v1/subscriptions/x\"",
		"POST /v1/webhook_endpoints":                 "use /v1/subscriptions\"",
		"POST /v1/app/acme/msg":                      "use /v1/namespaces/acme/events\"",
		"GET /v1/app/acme/endpoint/x":                "use /v1/subscriptions/x\"",
		"POST /v1/events":                            "use /v1/namespaces/{ns}/events\"",
		"GET /v1/namespaces/acme/subscriptions/x":    "use /v1/subscriptions/x\"",
		"GET /v1/subscriptions/x/attempts":           "use /v1/subscriptions/x/deliveries\"",
		"GET /v1/subscriptions/x/dlq":                "use /v1/subscriptions/x/dead-letters\"",
		"POST /v1/subscriptions/x/rotate":            "use /v1/subscriptions/x/secret/rotate\"",
		"GET /health":                                "use /healthz\"",
		"GET /nothing":                               "/docs lists all\"",
		"POST /v1/namespaces":                        "only GET; use PUT /v1/namespaces/{ns}\"",
		"DELETE /v1/grants/x":                        "use POST /v1/grants/x/revoke\"",
		"POST /v1/namespaces/acme/event-types":       "use PUT /v1/namespaces/acme/event-types/{id}\"",
		"PUT /v1/subscriptions":                      "use PUT /v1/subscriptions/{id}\"",
		"POST /v1/subscriptions/x":                   "use PATCH /v1/subscriptions/x to change it",
		"POST /v1/subscriptions/x/dead-letters":      "use POST /v1/subscriptions/x/dead-letters/redrive\"",
		"PATCH /v1/subscriptions/x/dead-letters/evt": "PATCH is not allowed at this URL, only DELETE, GET\"",
	} {
		a := b.do(t, line, "")
		require.Contains(t, []int{http.StatusNotFound, http.StatusMethodNotAllowed}, a.status, line)
		require.Contains(t, a.text, says, line)
		require.Equal(t, a.status == http.StatusMethodNotAllowed, a.header.Get("Allow") != "", line)
	}
}
