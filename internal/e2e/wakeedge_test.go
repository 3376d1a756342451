package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/internal/testkit/hooktest"
	"github.com/sluice-io/sluice/internal/wake"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/pkg/webhook"
)

// calls makes a callback at the address that a notice names, as it is written there.
func (s *running) calls(t *testing.T, status int, n wake.Notice, token, body string) reply {
	t.Helper()
	at, err := url.Parse(n.Callback)
	require.NoError(t, err)
	return s.must(t, status, "POST "+at.EscapedPath(), body, as(token)...)
}

// wakeUp makes a subscription at its pattern, appends to a stream and returns the notice.
func (s *running) wakeUp(t *testing.T, hook *hooktest.Server, pattern, stream string, headers ...string) (n wake.Notice, secret string) {
	t.Helper()
	made := s.must(t, http.StatusCreated, "PUT "+pattern+"?subscription=agents", `{"webhook":"`+hook.URL+`","description":"d"}`, headers...)
	secret, _ = made.field(t, "webhook_secret").(string)
	s.must(t, http.StatusCreated, "PUT "+stream, "", append(headers, text()...)...)
	s.must(t, http.StatusNoContent, "POST "+stream, "news", append(headers, text()...)...)
	r := hook.Wait(1)[0]
	require.NoError(t, (&webhook.Receiver{Scheme: webhook.TSHA256, Secrets: []string{secret}}).Verify(r.Header, r.Body), "S1-66")
	return notice(t, r), secret
}

// From its pattern's address to its end: made, woken, seen, called back, and gone with its stream (S1-01, S1-91, S1-122).
func TestWake_ConsumerLivesThroughEveryCall(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	hook := hooktest.New(t, nil)
	n, _ := s.wakeUp(t, hook, durableAt+"/agents/**", durableAt+"/agents/a%20b/c")
	require.Equal(t, "agents:%2Fagents%2Fa%20b%2Fc", n.ConsumerID)

	claim := fmt.Sprintf(`{"epoch":%d,"wake_id":%q}`, n.Epoch, n.WakeID)
	answer := s.calls(t, http.StatusOK, n, n.Token, claim)
	require.Equal(t, true, answer.field(t, "ok"))
	next, _ := answer.field(t, "token").(string)
	refused := s.calls(t, http.StatusUnauthorized, n, next+"x", claim)
	require.Equal(t, "TOKEN_INVALID", refused.field(t, "error.code"))
	require.Equal(t, "INVALID_REQUEST", s.calls(t, http.StatusBadRequest, n, next, `{}`).field(t, "error.code"))
	require.Equal(t, "ALREADY_CLAIMED", s.calls(t, http.StatusConflict, n, next, `{"epoch":1,"wake_id":"w_other"}`).field(t, "error.code"))

	for _, name := range []string{n.ConsumerID, url.PathEscape(n.ConsumerID), url.PathEscape("/agents/a b/c")} {
		one := s.must(t, http.StatusOK, "GET /v1/subscriptions/agents/consumers/"+name, "")
		require.Equal(t, "live", one.field(t, "state"))
		require.NotEmpty(t, one.field(t, "live_until"))
	}
	require.Equal(t, map[string]any{"live": 1.0}, s.must(t, http.StatusOK, "GET /v1/subscriptions/agents/status", "").field(t, "consumers"))
	require.Len(t, s.must(t, http.StatusOK, "GET /v1/subscriptions/agents/consumers?state=live", "").field(t, "consumers"), 1)

	s.must(t, http.StatusNoContent, "DELETE "+durableAt+"/agents/a%20b/c", "")
	require.Empty(t, s.must(t, http.StatusOK, "GET /v1/subscriptions/agents/consumers", "").field(t, "consumers"))
	require.Equal(t, "CONSUMER_GONE", s.calls(t, http.StatusGone, n, next, claim).field(t, "error.code"))
	s.must(t, http.StatusNotFound, "DELETE "+durableAt+"/agents/a%20b/c", "")
}

// S1-114: callbacks of a subscription that was deleted are gone, and of one that was made anew too.
func TestWake_CallbacksOfADeletedSubscriptionAreGone(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	hook := hooktest.New(t, nil)
	n, _ := s.wakeUp(t, hook, durableAt+"/agents/*", durableAt+"/agents/a")
	s.must(t, http.StatusNoContent, "DELETE "+durableAt+"/agents/*?subscription=agents", "")
	s.calls(t, http.StatusGone, n, n.Token, `{"epoch":1}`)
	s.must(t, http.StatusCreated, "PUT "+durableAt+"/agents/*?subscription=agents", `{"webhook":"`+hook.URL+`"}`)
	require.Contains(t, []int{http.StatusGone, http.StatusUnauthorized}, s.call(t, "POST "+strings.TrimPrefix(n.Callback, s.at.HTTP), `{"epoch":1}`, as(n.Token)...).status)
}

// Where the operator opens a namespace, anonymous callers may be woken; their subscriptions end when it closes.
func TestWake_AnonymousSubscriptionLivesWhileItsNamespaceIsOpen(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), func(c *config.Config) { c.Durable.Anonymous = []string{"open"} })
	s.must(t, http.StatusCreated, "PUT /v1/namespaces/open", `{}`)
	bare := []string{"Authorization", ""}
	hook := hooktest.New(t, nil)
	wish := `{"webhook":"` + hook.URL + `"}`
	n, secret := s.wakeUp(t, hook, "/streams/open/agents/*", "/streams/open/agents/a", bare...)
	require.NotEmpty(t, secret)
	s.calls(t, http.StatusOK, n, n.Token, `{"epoch":1,"wake_id":"`+n.WakeID+`","acks":[],"done":false}`)
	sub, err := s.api.Subscription(t.Context(), "agents")
	require.NoError(t, err)
	require.Equal(t, string(sluice.Anonymous), sub.CreatedBy)

	s.must(t, http.StatusCreated, "PUT /streams/open/agents/*?subscription=roots", wish)
	s.must(t, http.StatusOK, "GET /streams/open/**?subscription=agents", "", bare...)
	require.Len(t, s.must(t, http.StatusOK, "GET /streams/open/**?subscriptions", "", bare...).field(t, "subscriptions"), 1)
	for line, status := range map[string]int{
		"GET /streams/open/**?subscription=roots":          http.StatusNotFound,
		"DELETE /streams/open/agents/*?subscription=roots": http.StatusNotFound,
		"PUT /streams/open/agents/*?subscription=roots":    http.StatusConflict,
		"PUT /streams/default/agents/*?subscription=x":     http.StatusUnauthorized,
		"PUT /streams/open/_sys/**?subscription=x":         http.StatusUnauthorized,
		"GET /v1/subscriptions/agents/consumers":           http.StatusUnauthorized,
		"GET /streams/default/**?subscriptions":            http.StatusUnauthorized,
		"DELETE /streams/default/**?subscription=agents":   http.StatusUnauthorized,
		"PUT /streams/nowhere/agents/*?subscription=x":     http.StatusUnauthorized,
	} {
		s.must(t, status, line, wish, bare...)
	}
	s.must(t, http.StatusCreated, "PUT /streams/open/other/*?subscription=second", wish, bare...)
	s.must(t, http.StatusNoContent, "DELETE /streams/open/other/*?subscription=second", "", bare...)

	s.must(t, http.StatusOK, "PUT /v1/namespaces/open", `{"label":{"level":"SECRET"}}`)
	eventually(t, func() bool { return s.stateOf(t, "agents") == "cancelled "+sluice.ReasonAccessRevoked }, "a subscription without access ends")
	require.Equal(t, "active", s.stateOf(t, "roots"))
	s.calls(t, http.StatusGone, n, n.Token, `{"epoch":1}`)
	require.Empty(t, s.must(t, http.StatusOK, "GET /streams/open/**?subscriptions", "", bare...).field(t, "subscriptions"))
}

// A namespace that the operator has closed again at the next start is closed for what was made before.
func TestWake_AnonymousSubscriptionEndsWhenTheNamespaceCloses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, dir, func(c *config.Config) { c.Durable.Anonymous = []string{"default"} })
	hook := hooktest.New(t, nil)
	s.must(t, http.StatusCreated, "PUT "+durableAt+"/agents/*?subscription=agents", `{"webhook":"`+hook.URL+`"}`, "Authorization", "")
	s.stop(t)
	s = start(t, dir, nil)
	s.must(t, http.StatusCreated, "PUT "+durableAt+"/agents/a", "news", text()...)
	eventually(t, func() bool { return s.stateOf(t, "agents") == "cancelled "+sluice.ReasonAccessRevoked }, "it ends when there is something to send")
	require.Empty(t, hook.Requests())
}

// Who × S1's forms of the streams' addresses → status: as for /v1/subscriptions.
func TestWake_AccessMatrix(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), func(c *config.Config) { c.HTTP.AuthFailures.Burst = 0 })
	hook := hooktest.New(t, nil)
	s.must(t, http.StatusCreated, "PUT /v1/namespaces/elsewhere", `{}`)
	for _, who := range append(knownCallers(), "x") {
		if who != "uncleared" && who != "root" {
			s.must(t, http.StatusOK, "PUT /v1/principals/user:"+who, `{"clearance":{"level":"INTERNAL"}}`)
		}
	}
	c := gather(t, s, "acme", hook.URL)
	c.tokens["expired"] = outdated(t, s)
	const one = "/streams/{ns}/a/*?subscription={id}-wake"
	wish := `{"webhook":"{hook}"}`
	again := func() {
		s.must(t, http.StatusCreated, "PUT "+c.fill(one), c.fill(wish), as(c.tokens["owner"])...)
	}
	again()
	for _, tt := range []struct {
		line string
		asked
	}{
		{"PUT /streams/{ns}/b?subscription=new-{n}", asked{row: "200 owner subscriber admin sysadmin root; 404 unlisted uncleared stranger; 403 *", body: wish, ok: 201}},
		{"PUT " + one, asked{row: "200 owner root; 409 subscriber admin sysadmin; 404 unlisted uncleared stranger; 403 *", body: wish}},
		{"GET " + one, asked{row: forOwner}},
		{"GET /streams/{ns}/**?subscription={id}-wake", asked{row: forOwner}},
		{"GET /streams/{ns}/**?subscriptions", asked{row: forEverybody}},
		{"GET /v1/subscriptions/{id}-wake/consumers", asked{row: forOwner}},
		{"GET /v1/subscriptions/{id}-wake/consumers/%2Fa%2Fnone", asked{row: forOwner, ok: 404}},
		{"POST /v1/subscriptions/{id}-wake/test", asked{row: forOwner, ok: 422}},
		{"DELETE " + one, asked{row: forOwner, ok: 204}},
	} {
		statuses := tt.statuses(t, true)
		for j, who := range append(unknownCallers(), knownCallers()...) {
			c.ask(t, strings.ReplaceAll(tt.line, "{n}", strconv.Itoa(j)), who, tt.body, statuses[who])
			if statuses[who] == http.StatusNoContent {
				again()
			}
		}
	}
	// A list has what its caller may deal with.
	for _, tt := range []struct {
		who  string
		want int
	}{{"owner", 2}, {"subscriber", 1}, {"reader", 0}, {"stranger", 0}, {"root", 6}} {
		r := s.must(t, http.StatusOK, "GET "+c.fill("/streams/{ns}/**?subscriptions"), "", as(c.tokens[tt.who])...)
		var list struct {
			Subscriptions []json.RawMessage `json:"subscriptions"`
		}
		require.NoError(t, json.Unmarshal([]byte(r.text), &list))
		require.Len(t, list.Subscriptions, tt.want, tt.who)
	}
}
