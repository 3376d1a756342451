package e2e_test

import (
	"net/http"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/internal/testkit/hooktest"
)

// agreeing is an endpoint that answers OPTIONS with a status and what it allows; anything else with 200.
func agreeing(t *testing.T, status int, origin, rate string) *hooktest.Server {
	t.Helper()
	return hooktest.New(t, func(r hooktest.Request) hooktest.Answer {
		if r.Method == http.MethodOptions {
			return hooktest.Answer{Status: status, Header: map[string]string{"WebHook-Allowed-Origin": origin, "WebHook-Allowed-Rate": rate}}
		}
		return hooktest.Answer{}
	})
}

// Issue 13, attack 9: with a handshake nothing is made, or sent, before the endpoint agrees.
func TestHandshake_EndpointHasToAgree(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), func(c *config.Config) { c.HTTP.PublicURL = "https://events.example.com" })
	shake := func(hook *hooktest.Server) string {
		return `{"pattern":"/a/**","policy":{"rate":{"per_second":2}},"endpoint":{"handshake":true,"headers":{"X-Key":"k"},"url":"` + hook.URL + `/h"}}`
	}
	for why, hook := range map[string]*hooktest.Server{
		"the response to OPTIONS was 405": agreeing(t, http.StatusMethodNotAllowed, "*", ""),
		"WebHook-Allowed-Origin":          agreeing(t, http.StatusOK, "other.example.com", ""),
		"WebHook-Allowed-Rate":            agreeing(t, http.StatusOK, "*", "many"),
	} {
		refused := s.must(t, http.StatusUnprocessableEntity, "POST /v1/subscriptions", shake(hook))
		require.Contains(t, refused.field(t, "error.message"), why)
		require.Len(t, hook.Requests(), 1)
	}
	hook := agreeing(t, http.StatusOK, "Events.example.com", "90")
	made := s.must(t, http.StatusCreated, "POST /v1/subscriptions", shake(hook))
	require.InDelta(t, 90, made.field(t, "agreed.rate_per_minute"), 0)
	asked := hook.Wait(1)[0]
	require.Equal(t, []string{http.MethodOptions, "events.example.com", "120", "k"},
		[]string{asked.Method, asked.Header.Get("WebHook-Request-Origin"), asked.Header.Get("WebHook-Request-Rate"), asked.Header.Get("X-Key")})
	s.marked(t, "/a/1", "m")
	require.Equal(t, http.MethodPost, hook.Wait(2)[1].Method)

	at, _ := made.field(t, "id").(string)
	at = "/v1/subscriptions/" + at
	other := agreeing(t, http.StatusForbidden, "", "")
	refused := s.must(t, http.StatusUnprocessableEntity, "PATCH "+at, `{"endpoint":{"url":"`+other.URL+`"}}`)
	require.Contains(t, refused.text, "the response to OPTIONS was 403")
	require.Equal(t, hook.URL+"/h", s.must(t, http.StatusOK, "GET "+at, "").field(t, "endpoint.url"))
	require.Equal(t, http.StatusBadRequest, s.call(t, "PATCH "+at, `{"agreed":{"at":"2026-01-01T00:00:00Z"}}`).status, "that is not the caller's to say")
	again := agreeing(t, http.StatusNoContent, "*", "*")
	moved := s.must(t, http.StatusOK, "PATCH "+at, `{"endpoint":{"url":"`+again.URL+`"}}`)
	require.NotContains(t, moved.field(t, "agreed"), "rate_per_minute")
	require.Len(t, again.Requests(), 1)
	s.must(t, http.StatusOK, "PATCH "+at, `{"description":"the same endpoint"}`)
	require.Len(t, again.Requests(), 1, "it has agreed")
}

// Issue 13, attack 9: what is sent on request is bounded for each subscription and principal; the operator is not.
func TestSends_AreBoundedOverHTTP(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), func(c *config.Config) { c.Limits.SendsPerSubscription, c.Limits.SendsPerPrincipal = 2, 3 })
	hook := hooktest.New(t, nil)
	eve := s.grant(t, "user:eve", "path:default/a/**", "subscribe read publish")
	one, two := s.made(t, eve.token, wish(hook.URL+"/1", `"pattern":"/a/**"`)), s.made(t, eve.token, wish(hook.URL+"/2", `"pattern":"/a/**"`))
	test := func(id, token string) reply { return s.call(t, "POST /v1/subscriptions/"+id+"/test", "", as(token)...) }
	require.Equal(t, http.StatusOK, test(one, eve.token).status)
	require.Equal(t, http.StatusOK, test(one, eve.token).status)
	refused := test(one, eve.token)
	require.Equal(t, http.StatusTooManyRequests, refused.status, refused.text)
	seconds, err := strconv.Atoi(refused.header.Get("Retry-After"))
	require.NoError(t, err)
	require.Positive(t, seconds)
	require.Equal(t, http.StatusOK, test(two, eve.token).status)
	for line, body := range map[string]string{
		"/test": "", "/replay": "", "/deliveries/x/retry": "", "/dead-letters/redrive": `{"all":true}`, "/seek": `{"to":"all"}`,
	} {
		require.Equal(t, http.StatusTooManyRequests, s.call(t, "POST /v1/subscriptions/"+two+line, body, as(eve.token)...).status, line)
	}
	require.NotEqual(t, http.StatusTooManyRequests, s.call(t, "POST /v1/subscriptions/"+two+"/replay", `{"dry_run":true}`, as(eve.token)...).status)
	for range 5 {
		require.Equal(t, http.StatusOK, test(one, s.token).status)
	}
}
