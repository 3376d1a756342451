package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/internal/natsd"
	"github.com/sluice-io/sluice/internal/testkit/hooktest"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
)

// portalCode makes a link with a request and returns its code.
func (s *running) portalCode(t *testing.T, body string) string {
	t.Helper()
	url, _ := s.must(t, http.StatusCreated, "POST /v1/portal/links", body).field(t, "url").(string)
	_, code, ok := strings.Cut(url, "/portal/#code=")
	require.True(t, ok, url)
	return code
}

// openPortal exchanges a code for a session.
func (s *running) openPortal(t *testing.T, code string) granted {
	t.Helper()
	r := s.must(t, http.StatusCreated, "POST /v1/portal/sessions", fmt.Sprintf(`{"code":%q}`, code), tokenless()...)
	require.Empty(t, r.header.Values("Set-Cookie"), "so a page of another origin cannot act")
	require.Equal(t, "no-store", r.header.Get("Cache-Control"))
	id, _ := r.field(t, "grant").(string)
	token, _ := r.field(t, "token").(string)
	return granted{id, token}
}

// twoReplicas returns two servers that share a NATS.
func twoReplicas(t *testing.T, change func(*config.Config)) (one, two *running) {
	t.Helper()
	shared := natstest.NewWith(t, natsd.Options{User: "sluice", Password: "a password"})
	outside := func(c *config.Config) {
		c.NATS.URL, c.NATS.User, c.NATS.Password = shared.ClientURL(), "sluice", "a password"
		if change != nil {
			change(c)
		}
	}
	return start(t, t.TempDir(), outside), start(t, t.TempDir(), outside)
}

// Issue 19: a link opens one session of a tenant, which sees and manages what is its own, of which
// nothing ends with the session.
func TestPortal_SessionIsTheTenantsForAWhile(t *testing.T) {
	t.Parallel()
	one, two := twoReplicas(t, func(c *config.Config) { c.HTTP.PublicURL = "https://sluice.example/api/" })
	hook := hooktest.New(t, nil)
	link := one.must(t, http.StatusCreated, "POST /v1/portal/links", `{"principal":"user:a","object":"path:default/a/**","next":"/portal/attempts","ttl":"2h"}`)
	url, _ := link.field(t, "url").(string)
	require.True(t, strings.HasPrefix(url, "https://sluice.example/api/portal/#code=plk_"), url)
	grant, _ := link.field(t, "grant").(string)
	_, code, _ := strings.Cut(url, "code=")
	opened := two.must(t, http.StatusCreated, "POST /v1/portal/sessions", fmt.Sprintf(`{"code":%q}`, code), tokenless()...)
	require.Equal(t, "/portal/attempts", opened.field(t, "next"))
	require.Equal(t, "default", opened.field(t, "namespace"))
	require.Equal(t, link.field(t, "session_expires_at"), opened.field(t, "expires_at"))
	token, _ := opened.field(t, "token").(string)
	other := one.openPortal(t, one.portalCode(t, `{"principal":"user:b","object":"path:default/b/**"}`))

	id := one.made(t, token, wish(hook.URL, `"pattern":"/a/**"`))
	require.Equal(t, grant, two.must(t, http.StatusOK, "GET /v1/subscriptions/"+id, "", as(token)...).field(t, "grant"))
	two.must(t, http.StatusNotFound, "GET /v1/subscriptions/"+id, "", as(other.token)...)
	one.marked(t, "/a/x", "in the session")
	require.NotContains(t, two.must(t, http.StatusOK, "GET /v1/namespaces/default/events", "", as(other.token)...).text, "/a/x")
	require.Contains(t, two.must(t, http.StatusOK, "GET /v1/namespaces/default/events", "", as(token)...).text, "/a/x")
	two.must(t, http.StatusForbidden, "POST /v1/namespaces/default/events", `{"path":"/a/x"}`, as(token)...)
	two.must(t, http.StatusForbidden, "POST /v1/portal/links", `{"grant":"`+grant+`"}`, as(token)...)
	session, _ := opened.field(t, "grant").(string)
	one.must(t, http.StatusOK, "POST /v1/grants/"+session+"/revoke", "", as(token)...) // by itself: a log-out
	two.must(t, http.StatusUnauthorized, "GET /v1/whoami", "", as(token)...)
	two.must(t, http.StatusUnauthorized, "POST /v1/portal/sessions", fmt.Sprintf(`{"code":%q}`, code), tokenless()...)

	one.marked(t, "/a/x", "after the session")
	waitFor(t, hook, 2)
	again := two.openPortal(t, one.portalCode(t, `{"principal":"user:a","object":"path:default/a/**"}`))
	require.Equal(t, "active", one.must(t, http.StatusOK, "GET /v1/subscriptions/"+id, "", as(again.token)...).field(t, "state"))
	one.must(t, http.StatusOK, "POST /v1/grants/"+grant+"/revoke", "")
	two.must(t, http.StatusUnauthorized, "GET /v1/whoami", "", as(again.token)...)
}

// Issue 19: the requests with which a page waits end when the grant is revoked at another replica.
func TestPortal_RevocationEndsRequestsThatWait(t *testing.T) {
	t.Parallel()
	one, two := twoReplicas(t, nil)
	hook := hooktest.New(t, nil)
	link := one.must(t, http.StatusCreated, "POST /v1/portal/links", `{"principal":"user:a","object":"scope:default"}`)
	url, _ := link.field(t, "url").(string)
	require.True(t, strings.HasPrefix(url, "/portal/#code="), "nothing is known of a public address, and Host may be anything")
	require.NotEmpty(t, link.field(t, "hint"))
	one.must(t, http.StatusOK, "GET /v1/whoami?wait=10ms", "")
	one.must(t, http.StatusBadRequest, "GET /v1/whoami?wait=1h", "")
	_, code, _ := strings.Cut(url, "code=")
	session := two.openPortal(t, code)
	id := two.made(t, session.token, wish(hook.URL))
	one.must(t, http.StatusCreated, "PUT /streams/default/log", "")
	begun := two.must(t, http.StatusOK, "GET /v1/namespaces/default/attempts", "", as(session.token)...).field(t, "next_after")
	var waits sync.WaitGroup
	replies := map[string]reply{}
	var mu sync.Mutex
	for _, line := range []string{
		fmt.Sprintf("GET /v1/namespaces/default/attempts?after=%v&wait=30s", begun),
		fmt.Sprintf("GET /v1/namespaces/default/attempts?after=%v&wait=30s&subscription=%s", begun, id),
		"GET /v1/subscriptions/" + id + "/events?wait=30s",
		"GET /streams/default/log?live=long-poll&offset=now",
		"GET /v1/whoami?wait=30s",
	} {
		waits.Go(func() {
			r := two.call(t, line, "", as(session.token)...)
			mu.Lock()
			defer mu.Unlock()
			replies[line] = r
		})
	}
	for range 50 { // so that they wait
		two.must(t, http.StatusOK, "GET /v1/whoami", "", as(session.token)...)
	}
	began := time.Now()
	one.must(t, http.StatusOK, "POST /v1/grants/"+fmt.Sprint(link.field(t, "grant"))+"/revoke", "")
	waits.Wait()
	t.Logf("ended %s after the revocation", time.Since(began))
	for line, r := range replies {
		require.Equal(t, http.StatusUnauthorized, r.status, "%s: %s", line, r.text)
		require.Equal(t, "revoked", r.field(t, "error.details.reason"), line)
	}
}

// Issue 19: a test sends the example of a type in the catalogue, to an endpoint of the tenant's own.
func TestPortal_TestSendsTheCataloguesExample(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	hook := hooktest.New(t, nil)
	s.must(t, http.StatusCreated, "PUT /v1/namespaces/default/event-types/order.paid", `{"schema":{"type":"object","examples":[{"total":5},{"total":6}]}}`)
	s.must(t, http.StatusCreated, "PUT /v1/namespaces/default/event-types/plain", `{"description":"x"}`)
	session := s.openPortal(t, s.portalCode(t, `{"principal":"user:a","object":"path:default/a/**"}`))
	id := s.made(t, session.token, wish(hook.URL, `"pattern":"/a/**"`))
	test := "POST /v1/subscriptions/" + id + "/test"
	s.must(t, http.StatusUnprocessableEntity, test, `{"type":"plain"}`, as(session.token)...)
	s.must(t, http.StatusNotFound, test, `{"type":"unknown"}`, as(session.token)...)
	s.must(t, http.StatusBadRequest, test, `{"kind":"plain"}`, as(session.token)...)
	require.Empty(t, hook.Requests())
	s.must(t, http.StatusOK, test, `{"type":"order.paid"}`, as(session.token)...)
	s.must(t, http.StatusOK, test, "", as(session.token)...)
	require.Contains(t, string(hook.Requests()[0].Body), `{"total":5}`)
	require.Contains(t, string(hook.Requests()[0].Body), `"order.paid"`)
	require.Contains(t, string(hook.Requests()[1].Body), `"sys.test"`)
}

// Issue 19: codes cannot be guessed in numbers, and what is used or wrong tells nothing of others.
func TestPortal_CodesAreSecretAndBounded(t *testing.T) {
	t.Parallel()
	log := &logLines{}
	s := startLogging(t, t.TempDir(), func(c *config.Config) { c.HTTP.AuthFailures.Burst = 5 }, log)
	s.must(t, http.StatusBadRequest, "POST /v1/portal/links", `{"principal":"user:a","object":"scope:default","next":"//evil.example"}`)
	code := s.portalCode(t, `{"principal":"user:a","object":"scope:default"}`)
	for _, body := range []string{"", `{"code":"`, `{"code":"x","more":1}`} {
		require.Contains(t, []int{http.StatusBadRequest, http.StatusUnauthorized}, s.call(t, "POST /v1/portal/sessions", body, tokenless()...).status)
	}
	s.must(t, http.StatusRequestEntityTooLarge, "POST /v1/portal/sessions", `{"code":"`+strings.Repeat("x", 2000)+`"}`, tokenless()...)
	status := func(code string) int {
		return s.call(t, "POST /v1/portal/sessions", fmt.Sprintf(`{"code":%q}`, code), append(tokenless(), "Idempotency-Key", "k")...).status
	}
	require.Equal(t, http.StatusCreated, status(code))
	require.Equal(t, http.StatusUnauthorized, status(code), "a response is not kept for an unknown caller")
	eventually(t, func() bool { return status(code[:40]+strings.Repeat("A", len(code)-40)) == http.StatusTooManyRequests }, "guesses are slowed down")
	require.Equal(t, http.StatusCreated, status(s.portalCode(t, `{"principal":"user:a","object":"scope:default"}`)), "not those who have one")
	audit := s.must(t, http.StatusOK, "GET /v1/audit", "").text
	require.Contains(t, audit, `"portal.link"`)
	require.Contains(t, audit, `"portal.session"`)
	for _, text := range []string{audit, log.String()} {
		for _, form := range needles(code) {
			require.NotContains(t, text, form)
		}
	}
}
