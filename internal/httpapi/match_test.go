package httpapi_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// Issue 18, item 3: would this filter match, and which of its names has no event?
func TestMatch_SaysWhetherAndWhyNot(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	hooks := receiver(t)
	const one = "/v1/subscriptions/s"
	b.must(t, http.StatusCreated, "POST /v1/subscriptions",
		`{"id":"s","pattern":"/orders/**","filter":{"types":["order.paid","order.payd","order.made"],"cel":"event.data.total > 5 && (event.data.totl > 5 || event.data.coupon == 'x' || true)"},"endpoint":{"url":"`+hooks.URL+`"}}`)
	none := b.must(t, http.StatusOK, "POST "+one+"/match", "")
	require.Equal(t, map[string]any{"examined": 0.0, "warnings": []any{}}, none.body, "without events nothing is known")

	b.must(t, http.StatusCreated, "PUT /v1/namespaces/default/event-types/order.made", `{"schema":{"properties":{"coupon":{"type":"string"}}}}`)
	b.must(t, http.StatusCreated, "POST /v1/namespaces/default/events", `[{"id":"a","path":"/orders/1","type":"order.paid","data":{"total":7}},{"id":"b","path":"/orders/2","type":"order.paid","data":{"total":3}},{"id":"c","path":"/x","type":"order.payd","data":{"totl":1}}]`)
	for name, tt := range map[string]struct {
		body, reason, says string
		matches            bool
	}{
		"one that is stored":            {`{"event_id":"a"}`, "", "match", true},
		"one that the expression stops": {`{"event_id":"b"}`, "filter", "The filter does not match: the expression event.data.total", false},
		"one on another path":           {`{"event_id":"c"}`, "pattern", "The pattern /orders/** does not match the path /x.", false},
		"one that is not stored":        {`{"event":{"path":"/orders/9","type":"order.paid","data":{"total":6}}}`, "", "match", true},
		"of another type":               {`{"event":{"path":"/orders/9","type":"x","data":{"total":6}}}`, "filter", "The filter does not match: its type is", false},
	} {
		is := b.must(t, http.StatusOK, "POST "+one+"/match", tt.body)
		require.Equal(t, tt.matches, is.body["matches"], name)
		require.Contains(t, is.text, tt.says, name)
		if tt.reason != "" {
			require.Equal(t, tt.reason, is.body["reason"], name)
		}
		require.InDelta(t, 2, is.body["examined"], 0, name)
		require.Equal(t, []any{
			`filter.types: none of the latest 2 events on these paths has the type "order.payd"; did you mean order.paid?`,
			`filter.cel: none of the latest 2 events on these paths has event.data.totl; did you mean event.data.total?`,
		}, is.body["warnings"], name)
	}
	require.Empty(t, hooks.Requests(), "nothing is sent")

	b.must(t, http.StatusNotFound, "POST "+one+"/match", `{"event_id":"none"}`)
	const templated = "/v1/subscriptions/t"
	b.must(t, http.StatusCreated, "POST /v1/subscriptions", `{"id":"t","pattern":"/orders/**","endpoint":{"url":"`+hooks.URL+`"},"policy":{"body":{"cel":"{'a': event.data.x}"}}}`)
	shown := b.must(t, http.StatusOK, "POST "+templated+"/match", `{"event":{"path":"/orders/9","data":{"x":"\"<"}}}`)
	require.JSONEq(t, `{"a":"\"<"}`, shown.body["body"].(string))
	require.Equal(t, "application/json", shown.body["content_type"])
	b.must(t, http.StatusUnprocessableEntity, "POST "+templated+"/match", `{"event":{"path":"/orders/9","data":{}}}`)
	b.must(t, http.StatusBadRequest, "POST "+one+"/match", `{"event_id":"a","event":{}}`)
	b.must(t, http.StatusBadRequest, "POST "+one+"/match", `{"event":{"type":"x"}}`)
	b.must(t, http.StatusBadRequest, "POST "+one+"/match", `{"events":[]}`)

	b.must(t, http.StatusOK, "PATCH "+one, `{"filter":{"cel":"1 / event.data.total > 0"}}`)
	fails := b.must(t, http.StatusOK, "POST "+one+"/match", `{"event":{"path":"/orders/9","type":"order.paid","data":{"total":0}}}`)
	require.Equal(t, "filter_error", fails.body["reason"])
	require.Contains(t, fails.text, "cannot be evaluated on it")
}
