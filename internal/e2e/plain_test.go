package e2e_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/internal/testkit/hooktest"
	"github.com/sluice-io/sluice/pkg/sluice"
)

func TestPlainHTTP_OnANetworkIsWarnedOf(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		listen, public string
		warns          bool
	}{
		{"127.0.0.1:0", "", false},
		{"0.0.0.0:0", "", true},
		{"0.0.0.0:0", "https://sluice.example", false},
	} {
		log := &logLines{}
		s := startLogging(t, t.TempDir(), func(cfg *config.Config) { cfg.HTTP.Listen, cfg.HTTP.PublicURL = c.listen, c.public }, log)
		s.stop(t)
		require.Equal(t, c.warns, strings.Contains(log.String(), "plain HTTP"), "%s %s", c.listen, c.public)
	}
}

// Issue 13, finding 11: the addresses that the server hands out are its own, for any Host header.
func TestAddresses_AreNotTakenFromTheHostHeader(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	g := s.grant(t, "user:ann", "scope:default", "read")
	ask := func(method, at, body, token string) *http.Response {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, s.at.HTTP+at, strings.NewReader(body))
		require.NoError(t, err)
		req.Host = "evil.example"
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := s.api.HTTP.Do(req)
		require.NoError(t, err)
		return resp
	}
	resp := ask(http.MethodPut, "/streams/default/a", "", s.token)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, s.at.HTTP+"/streams/default/a", resp.Header.Get("Location"))
	r := s.must(t, http.StatusCreated, "POST /v1/namespaces/default/feed/tickets", `{}`, as(g.token)...)
	at, err := url.Parse(r.field(t, "url").(string))
	require.NoError(t, err)
	require.Equal(t, s.at.HTTP, at.Scheme+"://"+at.Host)
}

func TestContentEncoding_OfARequestIsRefused(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	const events = "POST /v1/namespaces/default/events"
	r := s.must(t, http.StatusUnsupportedMediaType, events, "\x1f\x8b", "Content-Encoding", "gzip", "Content-Type", "text/plain", "ce-id", "1")
	require.Equal(t, "unsupported_media_type", r.field(t, "error.code"))
	s.must(t, http.StatusUnsupportedMediaType, "POST /streams/default/a", "x", "Content-Encoding", "br")
	s.must(t, http.StatusCreated, events, `{"path":"/a"}`, "Content-Encoding", "identity")
}

// A stream of the server's that is missing is trouble of its operator's, who is told; it is no error inside.
func TestAudit_WithoutItsStreamIsUnavailable(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	require.NoError(t, dial(t, s.at.NATS).DeleteStream(t.Context(), jsNames(t).Ledger()))
	r := s.must(t, http.StatusServiceUnavailable, "GET /v1/audit", "")
	require.Contains(t, r.text, "missing")
}

// Issue 13, attack 14: a client that asks for /a/../b asks for /b. What lies on such a path from before, or by NATS, is read,
// delivered and erased, and wakes no worker.
func TestDots_AreNoSegmentsOfPaths(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	for _, path := range []string{"/a/../b", "/..", "/a/.", "/a/%2e%2E/b", "/./a"} {
		s.must(t, http.StatusBadRequest, "POST /v1/namespaces/default/events", `{"path":"`+path+`"}`)
		s.must(t, http.StatusBadRequest, "PUT /v1/namespaces/default/watches/w", `{"pattern":"`+path+`","action":{"path":"/a","type":"t"}}`)
		s.must(t, http.StatusBadRequest, "POST /v1/grants", `{"principal":"user:a","verbs":["read"],"object":"path:default`+path+`","expires_at":"`+in(3600e9)+`"}`)
	}
	s.must(t, http.StatusCreated, "POST /v1/namespaces/default/events", `{"path":"/a/.b/c..d/..."}`)

	push, wake := hooktest.New(t, nil), hooktest.New(t, nil)
	s.must(t, http.StatusCreated, "POST /v1/subscriptions", `{"pattern":"/x/**","endpoint":{"url":"`+push.URL+`"}}`)
	s.must(t, http.StatusCreated, "POST /v1/subscriptions", `{"mode":"wake","pattern":"/x/**","endpoint":{"url":"`+wake.URL+`"}}`)
	for _, subject := range []string{jsNames(t).Subject("default", "/x/../y"), jsNames(t).Subject("default", "/x/z")} {
		_, err := dial(t, s.at.NATS).PublishMsg(t.Context(), &nats.Msg{Subject: subject, Data: []byte(`{}`)})
		require.NoError(t, err)
	}
	push.Wait(2)
	require.NotContains(t, string(wake.Wait(1)[0].Body), "..")
	require.Len(t, s.logOf(t, "/x/**"), 2)
	s.must(t, http.StatusCreated, "POST /v1/namespaces/default/tombstones", `{"path":"/x/../y"}`)
	require.Equal(t, []sluice.Path{"/x/z"}, pathsOf(s.logOf(t, "/x/**")))
}

func pathsOf(events []sluice.Event) (paths []sluice.Path) {
	for i := range events {
		paths = append(paths, events[i].Path)
	}
	return paths
}
