package remote_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/mirror/remote"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// fetcher sends requests to any address.
type fetcher struct{}

func (fetcher) Check(context.Context, sluice.Endpoint) error { return nil }

func (fetcher) Fetch(req *http.Request, most int64) (*http.Response, []byte, error) {
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, most))
	return resp, body, err
}

// S3-43, S3-54, S3-137: a source gets requests of one shape for a hundred changes, for mirrors of any depth and prefix; each has ended when
// its page is there.
func TestObserve_AsksForOnePageAtATime(t *testing.T) {
	t.Parallel()
	var open atomic.Int32
	asked := make(chan string, 10)
	ended := make(chan struct{}, 10)
	source := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		open.Add(1)
		asked <- r.Method + " " + r.URL.String() + " " + r.Header.Get("Authorization")
		_, _ = io.WriteString(w, `{"incarnation":"i","first_seq":1,"last_seq":9,"through_seq":9,"has_more":false,"items":[]}`)
		open.Add(-1)
		ended <- struct{}{}
	}))
	defer source.Close()
	s := remote.Source{Fetcher: fetcher{}}
	m := &sluice.Mirror{Source: source.URL + "/v1/namespaces/low", Depth: sluice.DepthSummary, PathPrefix: "/a/"}
	for _, since := range []uint64{0, 9} {
		page, err := s.Observe(t.Context(), m, "cap_x", since)
		require.NoError(t, err)
		require.EqualValues(t, 9, page.ThroughSeq)
		<-ended
		require.Zero(t, open.Load())
	}
	require.Equal(t, "GET /v1/namespaces/low/observe?since=0&limit=100&depth=summary Bearer cap_x", <-asked)
	require.Equal(t, "GET /v1/namespaces/low/observe?since=9&limit=100&depth=summary Bearer cap_x", <-asked)
	require.Empty(t, asked)
}

// A source that refuses says why; a response that is no page is no page.
func TestObserve_SaysWhyThereIsNoPage(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status int
		body   string
		code   sluice.Code
		text   string
	}{
		"a revoked token": {401, `{"error":{"code":"unauthenticated","message":"the grant was revoked"}}`, sluice.Unauthenticated, "the grant was revoked"},
		"hidden":          {404, `{"error":{"code":"not_found","message":"no such namespace"}}`, sluice.NotFound, "no such namespace"},
		"a proxy":         {502, `<html>`, sluice.Unavailable, "Bad Gateway"},
		"no page":         {200, `<html>`, sluice.Unprocessable, "no page of changes"},
	} {
		source := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(c.status)
			_, _ = io.WriteString(w, c.body)
		}))
		_, err := remote.Source{Fetcher: fetcher{}}.Observe(t.Context(), &sluice.Mirror{Source: source.URL + "/v1/namespaces/low"}, "", 0)
		require.Equal(t, c.code, sluice.CodeOf(err), name)
		require.ErrorContains(t, err, c.text, name)
		source.Close()
	}
}
