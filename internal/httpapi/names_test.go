package httpapi_test

import (
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/authz"
	"github.com/sluice-io/sluice/internal/grants"
	"github.com/sluice-io/sluice/internal/httpapi"
)

// A second spelling would override the field: a grant to read would be one to administer.
func TestRequests_NamesOfFieldsHaveOneCase(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	opts := b.options()
	opts.Authority = grants.New(grants.Deps{Index: authz.NewIndex(), Now: time.Now})
	b.http = httptest.NewServer(httpapi.New(opts).Handler())
	t.Cleanup(b.http.Close)
	const grant = `{"principal":"user:q","verbs":["read"],"object":"path:acme/orders/**","expires_at":"2027-01-01T00:00:00Z",`
	for _, tt := range []struct{ line, body, field string }{
		{"POST /v1/grants", grant + `"OBJECT":"*"}`, "OBJECT"},
		{"POST /v1/grants", grant + `"Verbs":["admin"]}`, "Verbs"},
		{evts, `{"path":"/a","PATH":"/b"}`, "PATH"},
		{evts, `[{"path":"/a"},{"path":"/a","Type":"b"}]`, "Type"},
	} {
		a := b.do(t, tt.line, tt.body)
		require.Equal(t, 400, a.status, "%s: %s", tt.body, a.text)
		require.Contains(t, a.text, `"field":"`+tt.field+`"`, tt.body)
	}
}
