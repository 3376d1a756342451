package httpapi_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/httpapi"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// marked are marks, and what the API did to them.
type marked struct {
	all     []sluice.Unsafe
	cleared []string // producer and by whom
}

func (m *marked) UnsafeProducers(context.Context) ([]sluice.Unsafe, error) {
	return slices.Clone(m.all), nil
}

func (m *marked) ClearProducer(_ context.Context, producer, by string) error {
	if producer == "nobody" {
		return sluice.Errorf(sluice.NotFound, "producer %q is not marked unsafe", producer)
	}
	m.cleared = append(m.cleared, producer, by)
	return nil
}

func TestProducers_UnsafeOnesAreListedAndCleared(t *testing.T) { // S4-82
	t.Parallel()
	b := newBench(t)
	at := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	m := &marked{}
	for i, name := range []string{"user:ann", "root", "source:acme:https://a.example/x?y=%2F"} {
		m.all = append(m.all, sluice.Unsafe{Producer: name, Since: at.Add(time.Duration(i) * time.Hour), Count: 2, Event: sluice.Link{ID: "e", Type: "t", Path: "/a", Cause: "c", Seq: 7}})
	}
	opts := b.options()
	opts.Admin.Producers = m
	server := httptest.NewServer(httpapi.New(opts).Handler())
	t.Cleanup(server.Close)
	b.http = server

	page := b.must(t, http.StatusOK, "GET /v1/producers/unsafe?limit=2", "")
	require.Equal(t, []string{m.all[2].Producer, "root"}, names(page.list(t, "producers"), "producer"))
	require.Equal(t, map[string]any{"id": "e", "type": "t", "path": "/a"}, page.list(t, "producers")[0]["event"])
	page = b.must(t, http.StatusOK, "GET /v1/producers/unsafe?limit=2&cursor=root", "")
	require.Equal(t, []string{"user:ann"}, names(page.list(t, "producers"), "producer"))
	require.Empty(t, page.body["next_cursor"])
	for _, query := range []string{"cursor=none", "limit=0", "state=x"} {
		require.Equal(t, "invalid_request", b.must(t, http.StatusBadRequest, "GET /v1/producers/unsafe?"+query, "").code())
	}
	b.must(t, http.StatusNoContent, "DELETE /v1/producers/unsafe/source:acme:https%3A%2F%2Fa.example%2Fx%3Fy=%252F", "")
	b.must(t, http.StatusNoContent, "DELETE /v1/producers/unsafe/user:ann", "")
	require.Equal(t, []string{m.all[2].Producer, "root", "user:ann", "root"}, m.cleared)
	require.Equal(t, "not_found", b.must(t, http.StatusNotFound, "DELETE /v1/producers/unsafe/nobody", "").code())
}
