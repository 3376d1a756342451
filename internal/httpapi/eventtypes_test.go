package httpapi_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

func TestEventType_LivesThroughEveryCall(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const types = "/v1/namespaces/default/event-types"
	spec := `{"description":"d","schema":{"type" : "object"},"summary_fields":["total"],"static_labels":{"a":"b"}}`
	created := b.do(t, "PUT "+types+"/order%2Fplaced%20%C3%A9", spec)
	require.Equal(t, 201, created.status, created.text)
	require.Equal(t, "order/placed é", created.body["type"])
	require.Equal(t, map[string]any{"type": "object"}, created.body["schema"])
	tag := created.header.Get("ETag")
	require.NotEmpty(t, tag)

	again := b.do(t, "PUT "+types+"/order%2Fplaced%20%C3%A9", spec)
	require.Equal(t, 200, again.status)
	require.Equal(t, tag, again.header.Get("ETag"), "what stays as it is, is not written")
	got := b.do(t, "GET "+types+"/order%2Fplaced%20%C3%A9", "")
	require.Equal(t, again.text, got.text)

	stale := b.do(t, "PUT "+types+"/order%2Fplaced%20%C3%A9", `{}`, "If-Match", `"999"`)
	require.Equal(t, []any{412, "revision_mismatch"}, []any{stale.status, stale.code()})
	require.Equal(t, 412, b.do(t, "PUT "+types+"/new", `{}`, "If-Match", `"1"`).status)
	changed := b.do(t, "PUT "+types+"/order%2Fplaced%20%C3%A9", `{"schema":null}`, "If-Match", tag)
	require.Equal(t, 200, changed.status)
	require.NotContains(t, changed.text, "schema")
	require.Equal(t, created.body["created_at"], changed.body["created_at"])

	require.Equal(t, 201, b.do(t, "PUT "+types+"/b", ``).status)
	page := b.do(t, "GET "+types+"?limit=1", "")
	require.Equal(t, "b", page.body["next_cursor"])
	rest := b.do(t, "GET "+types+"?cursor=b", "")
	require.Contains(t, rest.text, "order/placed")
	require.Empty(t, rest.body["next_cursor"])
	require.Equal(t, 400, b.do(t, "GET "+types+"?cursor=none", "").status)

	require.Equal(t, 412, b.do(t, "DELETE "+types+"/b", "", "If-Match", `"999"`).status)
	require.Equal(t, 204, b.do(t, "DELETE "+types+"/b", "").status)
	require.Equal(t, 404, b.do(t, "DELETE "+types+"/b", "").status)
	require.Equal(t, 404, b.do(t, "GET "+types+"/b", "").status)

	entries, _, err := b.Entries(t.Context(), model.LedgerQuery{Action: "event_type.*", Limit: 10})
	require.NoError(t, err)
	var actions []string
	for _, e := range entries {
		actions = append(actions, e.Action+" "+e.Resource)
	}
	require.Equal(t, []string{"event_type.delete b", "event_type.create b", "event_type.update order/placed é", "event_type.create order/placed é"}, actions)
}

func TestEventType_RefusesInvalidOnes(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, tt := range []struct {
		name, line, body string
		status           int
		says             string
	}{
		{"no such namespace", "PUT /v1/namespaces/none/event-types/t", `{}`, 404, "not found"},
		{"list of no such namespace", "GET /v1/namespaces/none/event-types", ``, 404, "not found"},
		{"a namespace that is no name", "GET /v1/namespaces/%3E/event-types/t", ``, 404, "not found in the catalogue"},
		{"the server's own", "PUT /v1/namespaces/default/event-types/sys.start", `{}`, 403, "reserved"},
		{"a wildcard", "PUT /v1/namespaces/default/event-types/order.%2A", `{}`, 400, "without *"},
		{"an unknown field", "PUT /v1/namespaces/default/event-types/t", `{"shema":{}}`, 400, "shema"},
		{"a schema that is none", "PUT /v1/namespaces/default/event-types/t", `{"schema":{"type":"objekt"}}`, 400, "/type"},
		{"a schema that leads outside", "PUT /v1/namespaces/default/event-types/t", `{"schema":{"$ref":"http://127.0.0.1:9/x"}}`, 400, "external references are not allowed"},
		{"a field twice", "PUT /v1/namespaces/default/event-types/t", `{"summary_fields":["a","a"]}`, 400, "repeated"},
		{"a label without a name", "PUT /v1/namespaces/default/event-types/t", `{"static_labels":{"":"a"}}`, 400, "static_labels"},
		{"a long label", "PUT /v1/namespaces/default/event-types/t", `{"static_labels":{"a":"` + strings.Repeat("x", 257) + `"}}`, 400, "static_labels.a"},
		{"a catalogue of another kind", "PUT /v1/namespaces/acme", `{"catalogue":"closed"}`, 400, "open, strict"},
	} {
		got := b.do(t, tt.line, tt.body)
		require.Equal(t, tt.status, got.status, "%s: %s", tt.name, got.text)
		require.Contains(t, got.text, tt.says, tt.name)
	}
	large := sluice.EventType{Namespace: "a", Type: "t", Schema: make([]byte, sluice.MaxSchema+1)}
	require.Equal(t, sluice.TooLarge, sluice.CodeOf(large.Validate()))
}

// S2-73: a type's name is its identity. It is nowhere changed: what is to be called otherwise is another type.
func TestEventType_IsNeverRenamed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const known = "/v1/namespaces/default/event-types/order.placed"
	b.must(t, 201, "PUT "+known, `{"description":"d"}`)
	for _, body := range []string{`{"type":"order.made"}`, `{"description":"d","type":"order.placed"}`, `{"name":"order.made"}`} {
		got := b.do(t, "PUT "+known, body)
		require.Equal(t, []any{400, "invalid_request"}, []any{got.status, got.code()}, body)
	}
	for _, method := range []string{"PATCH", "POST"} {
		require.Equal(t, 405, b.do(t, method+" "+known, `{"type":"order.made"}`).status)
	}
	require.Equal(t, "order.placed", b.must(t, 200, "GET "+known, "").body["type"])
}
