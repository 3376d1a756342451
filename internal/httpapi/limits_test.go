package httpapi_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/httpapi"
	"github.com/sluice-io/sluice/internal/quota"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// quotaBench is an API whose namespace "acme" has a quota.
func quotaBench(t *testing.T, q sluice.Quota) *bench {
	t.Helper()
	b := newBench(t)
	quotas := quota.NewQuotas()
	opts := b.options()
	opts.Ingest = b.ingest(quotas)
	b.http = httptest.NewServer(httpapi.New(opts).Handler())
	t.Cleanup(b.http.Close)
	ns, _, err := b.store.Namespaces().Put(t.Context(), sluice.Namespace{Name: "acme", Quota: q})
	require.NoError(t, err)
	quotas.Set(ns)
	return b
}

func (a *answer) details(t *testing.T) map[string]any {
	t.Helper()
	e, ok := a.body["error"].(map[string]any)
	require.True(t, ok, a.text)
	details, ok := e["details"].(map[string]any)
	require.True(t, ok, a.text)
	return details
}

func TestQuota_RefusesTheWholeBatch(t *testing.T) {
	t.Parallel()
	b := quotaBench(t, sluice.Quota{EventsPerSecond: 0.01, Burst: 3})
	const acme = "/v1/namespaces/acme/events"
	b.must(t, http.StatusCreated, "POST "+acme, `[{"path":"/a"},{"path":"/a"}]`)
	a := b.must(t, http.StatusTooManyRequests, "POST "+acme, `[{"path":"/a"},{"path":"/a"}]`)
	require.Equal(t, "quota_exceeded", a.code())
	require.Equal(t, "100", a.header.Get("Retry-After"))
	require.Equal(t, map[string]any{"limit": 0.01, "unit": "events", "allowed": 1.0, "retry_after": 100.0}, a.details(t))
	b.must(t, http.StatusCreated, "POST "+acme, `{"path":"/a"}`)
	require.Len(t, b.must(t, http.StatusOK, "GET "+acme, "").list(t, "events"), 3)
	never := b.must(t, http.StatusRequestEntityTooLarge, "POST "+acme, `[{"path":"/a"},{"path":"/a"},{"path":"/a"},{"path":"/a"}]`)
	require.Contains(t, never.text, "send less at once")
	b.must(t, http.StatusCreated, "POST "+events, `{"path":"/a"}`)
}

func TestQuota_BytesCountRequestBodies(t *testing.T) {
	t.Parallel()
	b := quotaBench(t, sluice.Quota{BytesPerSecond: 1000})
	const acme = "/v1/namespaces/acme/events"
	a := b.must(t, http.StatusRequestEntityTooLarge, "POST "+acme, `{"path":"/a","data":"`+strings.Repeat("x", 1000)+`"}`)
	require.Contains(t, a.text, "bytes")
	b.must(t, http.StatusCreated, "POST "+acme, `{"path":"/a","data":"`+strings.Repeat("x", 900)+`"}`)
	require.Equal(t, "1", b.must(t, http.StatusTooManyRequests, "POST "+acme, `{"path":"/a","data":"`+strings.Repeat("x", 900)+`"}`).header.Get("Retry-After"))
}

func TestNamespace_ShowsTheQuotaInForce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	a := b.must(t, http.StatusCreated, "PUT /v1/namespaces/acme", `{"quota":{"events_per_second":2.5,"bytes_per_second":-1}}`)
	require.Equal(t, map[string]any{"events_per_second": 2.5, "burst": 3.0, "bytes_per_second": -1.0}, a.body["quota"])
	require.Equal(t, a.body["quota"], b.must(t, http.StatusOK, "GET /v1/namespaces/acme", "").body["quota"])
	for _, wrong := range []string{`{"burst":-1}`, `{"events_per_second":1e12}`, `{"bytes_per_second":1.5}`, `{"per_second":1}`} {
		b.must(t, http.StatusBadRequest, "PUT /v1/namespaces/acme", `{"quota":`+wrong+`}`)
	}
}

func TestPublish_RefusesTooLargeOrTooDeepEvents(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	opts := b.options()
	opts.MaxBody = 8 << 20
	b.http = httptest.NewServer(httpapi.New(opts).Handler())
	t.Cleanup(b.http.Close)
	deep := strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000)
	wide := make([]string, 70)
	for i := range wide {
		wide[i] = fmt.Sprintf(`"e%d":%q`, i, strings.Repeat("x", 1000))
	}
	tests := []struct {
		name, body string
		status     int
		says       string
	}{
		{"a body beyond http.max_body", `{"path":"/a","data":"` + strings.Repeat("x", 9<<20) + `"}`, http.StatusRequestEntityTooLarge, "larger than 8388608 bytes"},
		{"data beyond NATS' max_payload", `{"path":"/a","data":"` + strings.Repeat("x", 2<<20) + `"}`, http.StatusRequestEntityTooLarge, "the size limit of the NATS server"},
		{"one of a batch beyond it", `[{"path":"/a"},{"path":"/a","data":"` + strings.Repeat("x", 2<<20) + `"}]`, http.StatusRequestEntityTooLarge, "the size limit of the NATS server"},
		{"data that is nested too deep", `{"path":"/a","data":` + deep + `}`, http.StatusBadRequest, "too deep"},
		{"a body that is nested too deep", deep, http.StatusBadRequest, "too deep"},
		{"attributes beyond 64 KiB", `{"specversion":"1.0","id":"1","source":"/s","type":"t","path":"/a",` + strings.Join(wide, ",") + `}`, http.StatusRequestEntityTooLarge, "64 KiB"},
	}
	for _, tt := range tests {
		a := b.must(t, tt.status, "POST "+events, tt.body)
		require.Contains(t, a.text, tt.says, tt.name)
	}
	a := b.must(t, http.StatusRequestEntityTooLarge, "POST "+events, strings.Repeat("x", 2<<20),
		"Content-Type", "text/plain", "ce-specversion", "1.0", "ce-id", "1", "ce-type", "t", "ce-source", "/s", "ce-path", "/a")
	require.Contains(t, a.text, "the size limit of the NATS server")
	require.Empty(t, b.must(t, http.StatusOK, "GET "+events, "").list(t, "events"))
}

func TestStorage_ReportsItsUse(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	a := b.must(t, http.StatusOK, "GET /v1/storage", "")
	require.Greater(t, a.body["used_bytes"], 0.0)
	require.Zero(t, a.body["limit_bytes"])
}
