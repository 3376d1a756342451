package e2e_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/config"
)

// S2-81: feeds are bounded, in all and of one principal; the operator sees how many there are and how many were refused.
func TestFeed_NumberIsBounded(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), func(c *config.Config) { c.Feed.MaxFeeds, c.Feed.MaxPerPrincipal = 3, 1 })
	ada, bob := s.grant(t, "user:ada", "scope:default", "read"), s.grant(t, "user:bob", "scope:default", "read")
	refused := func(says, token string) {
		t.Helper()
		got := s.must(t, http.StatusTooManyRequests, "GET "+feedAt, "", as(token)...)
		require.Equal(t, "quota_exceeded", got.field(t, "error.code"))
		require.NotEmpty(t, got.header.Get("Retry-After"))
		require.Contains(t, got.text, says)
	}
	one, _ := s.feed(t, "", as(ada.token)...)
	refused("feed.max_per_principal", ada.token)
	s.feed(t, "", as(bob.token)...)
	s.feed(t, "")
	refused("feed.max_feeds", s.token)
	metrics := s.must(t, http.StatusOK, "GET /metrics", "").text
	for _, line := range []string{"sluice_feeds 3", "sluice_feeds_refused_total 2", "sluice_feed_rings 1", "sluice_feed_ring_bytes 0"} {
		require.Contains(t, metrics, "\n"+line+"\n")
	}
	limits := s.must(t, http.StatusOK, "GET /v1/capabilities", "")
	require.InDelta(t, 3, limits.field(t, "limits.feeds"), 0)
	require.InDelta(t, 1, limits.field(t, "limits.feeds_per_principal"), 0)
	require.InDelta(t, 10_000, limits.field(t, "limits.live_cel_cost"), 0)
	one.stop()
	eventually(t, func() bool {
		return strings.Contains(s.must(t, http.StatusOK, "GET /metrics", "").text, "\nsluice_feeds 2\n")
	}, "a feed is over")
	s.feed(t, "", as(ada.token)...)
}

// S2-140: an expression that is too dear for live use is refused where that is noticed, in feeds and in the state.
func TestFilter_TooExpensiveExpressionIsRefused(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	list := "[1" + strings.Repeat(",1", 120) + "]"
	const dear = "event.data.all(a, event.data.all(b, a == b))"
	asks := url.Values{"cel": {dear}}.Encode()
	always := url.Values{"cel": {list + ".map(a, " + list + ".map(b, a + b)) == []"}}.Encode()
	for _, route := range []string{feedAt, "/v1/namespaces/default/state"} {
		require.Equal(t, "invalid_request", s.must(t, http.StatusBadRequest, "GET "+route+"?"+always, "").field(t, "error.code"))
	}
	r, _ := s.feed(t, asks)
	s.must(t, http.StatusCreated, "POST /v1/namespaces/default/events", `{"path":"/a","data":[1,1]}`)
	require.Equal(t, uint64(1), r.frame().Seq)
	s.must(t, http.StatusOK, "GET /v1/namespaces/default/state?"+asks, "")
	s.must(t, http.StatusCreated, "POST /v1/namespaces/default/events", `{"path":"/b","data":`+list+`}`)
	end := r.frame()
	require.NotNil(t, end.Error)
	require.Equal(t, "unprocessable", end.Error.Code)
	require.InDelta(t, 2, end.Error.Details["seq"], 0)
	require.Equal(t, "unprocessable", s.must(t, http.StatusUnprocessableEntity, "GET /v1/namespaces/default/state?"+asks, "").field(t, "error.code"))
}
