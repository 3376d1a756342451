package httpapi_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/authz"
	"github.com/sluice-io/sluice/internal/grants"
	"github.com/sluice-io/sluice/internal/httpapi"
)

// granting returns a bench whose API has grants.
func granting(t *testing.T) *bench {
	t.Helper()
	b := newBench(t)
	opts := b.options()
	opts.Authority = grants.New(grants.Deps{Index: authz.NewIndex(), Now: time.Now})
	b.http = httptest.NewServer(httpapi.New(opts).Handler())
	t.Cleanup(b.http.Close)
	return b
}

// A second spelling would override the field: a grant to read would be one to administer.
func TestRequests_NamesOfFieldsHaveOneCase(t *testing.T) {
	t.Parallel()
	b := granting(t)
	const grant = `{"principal":"user:q","verbs":["read"],"object":"path:acme/orders/**","expires_at":"2027-01-01T00:00:00Z",`
	for _, tt := range []struct{ line, body, field string }{
		{"POST /v1/grants", grant + `"OBJECT":"*"}`, "OBJECT"},
		{"POST /v1/grants", grant + `"Verbs":["admin"]}`, "Verbs"},
		{evts, `{"path":"/a","PATH":"/b"}`, "PATH"},
		{evts, `[{"path":"/a"},{"path":"/a","Type":"b"}]`, "Type"},
	} {
		a := b.do(t, tt.line, tt.body)
		require.Equal(t, http.StatusBadRequest, a.status, "%s: %s", tt.body, a.text)
		require.Contains(t, a.text, `"field":"`+tt.field+`"`, tt.body)
	}
}

func TestRequests_ErrorsNameTheFieldAtFault(t *testing.T) {
	t.Parallel()
	b := granting(t)
	b.must(t, http.StatusCreated, "PUT /v1/subscriptions/p1", toEndpoint(hook))
	const p1, rfc = " /v1/subscriptions/p1", "use an RFC 3339 time such as 2006-01-02T15:04:05Z"
	for _, tt := range []struct{ line, body, field, says string }{
		{"POST /v1/grants", `{"principal":"user:q","verbs":["read"],"object":"*","expires_at":"2027-01-01"}`, "expires_at", rfc},
		{"POST /v1/grants", `{"principal":"user:q","verbs":["read"],"object":"orders"}`, "object", "object"},
		{"PATCH" + p1, `{"created_at":"x"}`, "created_at", rfc},
		{"PATCH" + p1, `{"policy":{"ordering":"none"}}`, "policy.ordering", "cannot change"},
		{evts, `{"path":"/a","time":"x"}`, "time", "is not RFC 3339"},
		{"POST" + p1 + "/secret/rotate", `{"overlap":"x"}`, "overlap", "is not a duration such as 10s"},
		{"POST" + p1 + "/secret/rotate", `{"overlap":"-1s"}`, "overlap", "is negative"},
		{"POST /v1/keys/rotate", `{"overlap":5}`, "overlap", "is not a duration; write a string"},
		{"GET" + p1 + "/deliveries?path=x", ``, "path", "does not start with /"},
		{"GET" + p1 + "/dead-letters?path=x", ``, "path", "does not start with /"},
		{"GET" + p1 + "/deliveries?since=%01", ``, "since", "use -1, now, a sequence"},
		{"GET" + p1 + "/events?after=%01", ``, "after", "use -1, now, a sequence"},
		{"GET /v1/namespaces/default/events?until=%01", ``, "until", "use -1, now, a sequence"},
	} {
		a := b.do(t, tt.line, tt.body)
		require.Equal(t, http.StatusBadRequest, a.status, "%s %s: %s", tt.line, tt.body, a.text)
		require.Contains(t, a.text, `"field":"`+tt.field+`"`, "%s %s", tt.line, tt.body)
		require.Contains(t, a.text, tt.says, "%s %s", tt.line, tt.body)
	}
}
