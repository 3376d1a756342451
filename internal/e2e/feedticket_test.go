package e2e_test

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/internal/testkit/sockettest"
	"github.com/sluice-io/sluice/pkg/sluice"
)

const ticketsAt = feedAt + "/tickets"

// ticket gets a ticket for feeds of the default namespace.
func (s *running) ticket(t *testing.T, body string, headers ...string) string {
	t.Helper()
	text, ok := s.must(t, http.StatusCreated, "POST "+ticketsAt, body, headers...).field(t, "ticket").(string)
	require.True(t, ok)
	return text
}

// tokenless is the headers of a request without a token.
func tokenless() []string { return []string{"Authorization", ""} }

// useTickets has a grant's tickets do all that tickets can, and revokes it.
func (s *running) useTickets(t *testing.T, g granted, say func(line, body string, headers ...string)) (good, bad string) {
	t.Helper()
	good, bad = s.ticket(t, "", as(g.token)...), s.ticket(t, "", as(g.token)...)+"A"
	r, _ := s.feed(t, "ticket="+good, tokenless()...)
	socket, _ := s.socket(t, "ticket="+good, tokenless()...)
	for _, rest := range []string{"?ticket=" + bad, "/nothing?ticket=" + good, "?since=x&ticket=" + good} {
		say("GET "+feedAt+rest, "")
		say("GET "+feedAt+rest, "", tokenless()...)
	}
	s.must(t, http.StatusOK, "POST /v1/grants/"+g.id+"/revoke", "")
	require.NotNil(t, r.frame().Error)
	require.NotNil(t, socket.frame().Error)
	return good, bad
}

// A ticket is who got it, with what it may see at each frame, and ends with its grant.
func TestTicket_OpensFeedsAsItsIssuer(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	put(t, s.api, "/b", 1, 1)
	put(t, s.api, "/a/x", 2, 2)
	g := s.grant(t, "user:ann", "scope:default", "read")
	part := s.grant(t, "user:bob", "path:default/a/**", "read", g.token)
	rooted, _ := s.feed(t, "since=-1&ticket="+s.ticket(t, ""), tokenless()...)
	require.Equal(t, []string{`{"n":1}`, `{"n":2}`}, rooted.events(2))

	ticket := s.ticket(t, `{"ttl":"1h"}`, as(part.token)...)
	r, _ := s.feed(t, "since=-1&ticket="+ticket, tokenless()...)
	socket, _ := s.socket(t, "since=-1&ticket="+ticket, tokenless()...)
	again, _ := s.feed(t, "since=-1&pattern=/a/*&ticket="+ticket, tokenless()...)
	for _, r := range []*feedReader{r, socket, again} {
		require.Equal(t, []string{`{"n":2}`}, r.events(1), "what the caller may not see is not there")
	}
	s.must(t, http.StatusForbidden, "GET "+feedAt+"?pattern=/b&ticket="+ticket, "", tokenless()...)

	s.must(t, http.StatusOK, "POST /v1/grants/"+g.id+"/revoke", "") // of which it is a part
	for _, r := range []*feedReader{r, socket, again} {
		require.NotNil(t, r.frame().Error)
	}
	refusal := s.must(t, http.StatusUnauthorized, "GET "+feedAt+"?ticket="+ticket, "", tokenless()...)
	require.Equal(t, "revoked", refusal.field(t, "error.details.reason"))
	s.must(t, http.StatusUnauthorized, "POST "+ticketsAt, "", as(part.token)...)
}

// A ticket is for one namespace's feeds, as long as it says, and is written in one way.
func TestTicket_IsForFeedsOnly(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), func(c *config.Config) { c.HTTP.AuthFailures.Burst = 0 })
	s.must(t, http.StatusCreated, "PUT /v1/namespaces/other", `{}`)
	g := s.grant(t, "user:ann", "*", "admin")
	got := s.must(t, http.StatusCreated, "POST "+ticketsAt, `{}`, as(g.token)...)
	ticket, _ := got.field(t, "ticket").(string)
	require.Equal(t, s.at.HTTP+feedAt+"?ticket="+ticket, got.field(t, "url"))
	until, err := time.Parse(time.RFC3339, got.field(t, "expires_at").(string))
	require.NoError(t, err)
	require.WithinDuration(t, time.Now().Add(time.Minute), until, 30*time.Second)

	refused := func(reason, query string) {
		t.Helper()
		got := s.must(t, http.StatusUnauthorized, "GET "+query, "", tokenless()...)
		if reason != "" {
			require.Equal(t, reason, got.field(t, "error.details.reason"))
		}
		require.Equal(t, "Bearer realm=\"sluice\"", got.header.Get("WWW-Authenticate"))
	}
	refused("other_namespace", "/v1/namespaces/other/feed?ticket="+ticket)
	refused("signature_invalid", feedAt+"?ticket="+ticket[:len(ticket)-16]+strings.Repeat("A", 16))
	refused("malformed", feedAt+"?ticket="+g.token)
	refused("malformed", feedAt+"?ticket=")
	refused("signature_invalid", feedAt+"?ticket="+url.QueryEscape(ticket+"\n"))
	c := cast{running: s, ns: "default", id: "none", event: "none", grantID: g.id, hook: "http://127.0.0.1:1/"}
	open := 0
	for _, line := range routesOf(t, s) {
		row := matrix()[line]
		if row.row == withoutAToken || strings.HasPrefix(line, "POST /callback/") {
			continue
		}
		method, path, _ := strings.Cut(c.fill(line), " ")
		if line == "GET "+"/v1/namespaces/{ns}/feed" {
			s.must(t, http.StatusBadRequest, "GET "+path+"?buffer=0&ticket="+ticket, "", tokenless()...)
			open++
			continue
		}
		want := http.StatusUnauthorized
		if line == "POST /v1/portal/sessions" { // it takes no token, and no parameter
			want = http.StatusBadRequest
		}
		r := s.call(t, method+" "+path+"?ticket="+ticket, c.fill(row.body), tokenless()...)
		require.Equal(t, want, r.status, line)
		r = s.call(t, method+" "+path, c.fill(row.body), as(ticket)...)
		require.Equal(t, http.StatusUnauthorized, r.status, "%s with the ticket as a token", line)
	}
	require.Equal(t, 1, open)

	for _, query := range []string{"?ticket=" + ticket + "&ticket=" + ticket, "?ticket=" + ticket} {
		headers := tokenless()
		if !strings.Contains(query, "&") {
			headers = as(g.token)
		}
		s.must(t, http.StatusBadRequest, "GET "+feedAt+query, "", headers...)
	}
	for _, ttl := range []string{"0s", "999ms", "61m", "-1s", "soon"} {
		s.must(t, http.StatusBadRequest, "POST "+ticketsAt, `{"ttl":"`+ttl+`"}`)
	}
	s.must(t, http.StatusBadRequest, "POST "+ticketsAt, `{"for":"1s"}`)
	s.must(t, http.StatusNotFound, "POST /v1/namespaces/none/feed/tickets", "")

	short := s.ticket(t, `{"ttl":"1s"}`, as(g.token)...)
	r, _ := s.feed(t, "ticket="+short, tokenless()...)
	eventually(t, func() bool {
		got := s.call(t, "GET "+feedAt+"?buffer=0&ticket="+short, "", tokenless()...)
		return got.status == http.StatusUnauthorized && got.field(t, "error.details.reason") == "expired"
	}, "the ticket expires")
	put(t, s.api, "/a", 1, 1)
	require.Equal(t, []string{`{"n":1}`}, r.events(1), "what it opened goes on")
	s.must(t, http.StatusOK, "POST /v1/grants/"+g.id+"/renew", "")
	refused("token_replay", feedAt+"?ticket="+ticket)
}

// Guessing tickets is guessing tokens; coming back with one that was good is not.
func TestTicket_GuessingIsDelayed(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), func(c *config.Config) {
		c.HTTP.AuthFailures.Burst, c.HTTP.AuthFailures.Every = 5, sluice.Duration(time.Hour)
	})
	short := s.ticket(t, `{"ttl":"1s"}`)
	eventually(t, func() bool {
		return s.call(t, "GET "+feedAt+"?buffer=0&ticket="+short, "", tokenless()...).status == http.StatusUnauthorized
	}, "the ticket expires")
	for range 10 {
		s.must(t, http.StatusUnauthorized, "GET "+feedAt+"?ticket="+short, "", tokenless()...)
	}
	for range 5 {
		s.must(t, http.StatusUnauthorized, "GET "+feedAt+"?ticket=tkt_guess", "", tokenless()...)
	}
	s.must(t, http.StatusTooManyRequests, "GET "+feedAt+"?ticket=tkt_guess", "", tokenless()...)
	r, _ := s.feed(t, "ticket="+s.ticket(t, ""), tokenless()...)
	put(t, s.api, "/a", 1, 1)
	require.Equal(t, []string{`{"n":1}`}, r.events(1))
}

// Every replica takes the tickets of the others, also of a grant that was made a moment ago, and the next life of a server too.
func TestTicket_HoldsOnEveryReplicaAndAfterRestart(t *testing.T) {
	t.Parallel()
	dir, shared := t.TempDir(), func(c *config.Config) { c.Secrets.Key = sharedKey }
	first := start(t, dir, shared)
	second := start(t, t.TempDir(), func(c *config.Config) {
		c.NATS.URL, c.NATS.User, c.NATS.Password = first.at.NATS, tester.Name, testerPassword
		c.Secrets.Key = sharedKey
	})
	g := first.grant(t, "user:ann", "scope:default", "read")
	for n, headers := range [][]string{nil, as(g.token)} {
		r, _ := second.feed(t, "ticket="+first.ticket(t, "", headers...), tokenless()...)
		put(t, first.api, "/a", n, n)
		require.Equal(t, []string{fmt.Sprintf(`{"n":%d}`, n)}, r.events(1))
	}
	ticket := first.ticket(t, `{"ttl":"1h"}`, as(g.token)...)
	second.stop(t)
	first.stop(t)
	again := start(t, dir, shared)
	r, _ := again.feed(t, "since=-1&ticket="+ticket, tokenless()...)
	require.Equal(t, []string{`{"n":0}`, `{"n":1}`}, r.events(2))
}

// Pages of any origin read feeds with what they were given, and with nothing that a browser or a proxy adds to what they send.
func TestFeed_PagesOfOtherOriginsRead(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	const origin = "https://pages.example"
	for path, methods := range map[string]string{feedAt: "GET, OPTIONS", ticketsAt: "POST, OPTIONS"} {
		r := s.must(t, http.StatusNoContent, "OPTIONS "+path, "", "Authorization", "", "Origin", origin, "Access-Control-Request-Method", "POST",
			"Access-Control-Request-Headers", "authorization,content-type,last-event-id")
		require.Equal(t, "*", r.header.Get("Access-Control-Allow-Origin"))
		require.Equal(t, methods, r.header.Get("Access-Control-Allow-Methods"))
		for _, name := range []string{"authorization", "content-type", "last-event-id", "cache-control"} {
			require.Contains(t, r.header.Get("Access-Control-Allow-Headers"), name)
		}
		require.Empty(t, r.header.Get("Access-Control-Allow-Credentials"), "cookies do not count")
	}
	for _, line := range []string{"GET " + feedAt + "?ticket=x", "GET " + feedAt + "?buffer=0", "POST " + ticketsAt, "GET " + feedAt + "?since=none"} {
		r := s.call(t, line, "", "Origin", origin)
		require.Equal(t, "*", r.header.Get("Access-Control-Allow-Origin"), "also what is refused can be read")
		require.Contains(t, r.header.Get("Access-Control-Expose-Headers"), "Retry-After")
		require.Contains(t, r.header.Get("Access-Control-Expose-Headers"), "X-Request-Id")
		require.Equal(t, "cross-origin", r.header.Get("Cross-Origin-Resource-Policy"))
	}
	require.Empty(t, s.must(t, http.StatusOK, "GET /v1/namespaces", "", "Origin", origin).header.Get("Access-Control-Allow-Origin"), "nothing else is theirs")

	r, _ := s.socket(t, "ticket="+s.ticket(t, ""), "Authorization", "", "Origin", origin)
	put(t, s.api, "/a", 1, 1)
	require.Equal(t, []string{`{"n":1}`}, r.events(1))
	_, refused, err := sockettest.Dial(t.Context(), s.api.HTTP, s.at.HTTP+feedAt,
		http.Header{"Authorization": {"Bearer " + s.token}, "Origin": {origin}})
	require.Error(t, err, "a page sends no token with a WebSocket: another party added it")
	defer func() { _ = refused.Body.Close() }() // it was read
	text, err := io.ReadAll(refused.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusForbidden, refused.StatusCode)
	require.Contains(t, string(text), `"code":"forbidden"`)
	own, _ := s.socket(t, "", "Origin", s.at.HTTP)
	put(t, s.api, "/a", 2, 2)
	require.Equal(t, []string{`{"n":2}`}, own.events(1))
}
