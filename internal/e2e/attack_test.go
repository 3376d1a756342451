package e2e_test

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/testkit/hooktest"
)

// labelled publishes an event with an id, a label and data.
// hidden is in the data of events that only some may read. It is long: what it is looked for in holds tokens and signatures.
const hidden = "readable-by-the-cleared-alone"

func (s *running) labelled(t *testing.T, path, id, label, data string) {
	t.Helper()
	s.must(t, http.StatusCreated, "POST /v1/namespaces/default/events",
		fmt.Sprintf(`{"specversion":"1.0","type":"t","source":"/s","id":%q,"path":%q,"dataclassification":%q,"data":%s}`, id, path, label, data))
}

// An admin of a namespace may end other people's grants in it, but gets no token of theirs: not their clearance, and no day more
// than its own.
func TestRenew_AdminGetsNoForeignToken(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	s.must(t, http.StatusOK, "PUT /v1/principals/service:erp", `{"clearance":{"level":"SECRET"}}`)
	erp := s.grant(t, "service:erp", "scope:default", "read")
	eve := s.grant(t, "user:eve", "scope:default", "admin")
	s.labelled(t, "/a", "one", "SECRET", `{"mark":"`+hidden+`"}`)
	got := s.call(t, "POST /v1/grants/"+erp.id+"/renew", fmt.Sprintf(`{"expires_at":%q}`, time.Now().Add(80*24*time.Hour).UTC().Format(time.RFC3339)), as(eve.token)...)
	require.Equal(t, http.StatusForbidden, got.status, got.text)
	if token, ok := got.field(t, "token").(string); ok {
		require.NotContains(t, s.call(t, "GET /v1/namespaces/default/events/one", "", as(token)...).text, hidden)
	}
	s.must(t, http.StatusOK, "POST /v1/grants/"+erp.id+"/revoke", "", as(eve.token)...)
}

// A holder that gives a part of its grant to another's name does not become that principal.
func TestMint_ForeignNameTakesNoOwnership(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	s.must(t, http.StatusOK, "PUT /v1/principals/user:ann", `{"clearance":{"level":"SECRET"}}`)
	s.must(t, http.StatusCreated, "PUT /v1/namespaces/other", `{}`)
	hers, evil := hooktest.New(t, nil), hooktest.New(t, nil)
	ann := s.grant(t, "user:ann", "scope:default", "subscribe")
	elsewhere := s.grant(t, "user:ann", "scope:other", "read")
	id := s.made(t, ann.token, wish(hers.URL, `"id":"hers"`, `"pattern":"/a/**"`))
	eve := s.grant(t, "user:eve", "path:default/a/**", "subscribe")
	as2 := s.grant(t, "user:ann", "path:default/a/**", "subscribe", eve.token)

	for _, line := range []string{"GET /v1/subscriptions/" + id, "POST /v1/subscriptions/" + id + "/secret/rotate", "GET /v1/grants/" + elsewhere.id, "GET /v1/grants/" + ann.id} {
		got := s.call(t, line, "", as(as2.token)...)
		require.Equal(t, http.StatusNotFound, got.status, "%s: %s", line, got.text)
	}
	got := s.call(t, "PATCH /v1/subscriptions/"+id, `{"endpoint":{"url":"`+evil.URL+`"}}`, as(as2.token)...)
	require.Equal(t, http.StatusNotFound, got.status, got.text)
	require.NotContains(t, s.must(t, http.StatusOK, "GET /v1/grants", "", as(as2.token)...).text, elsewhere.id)
	require.NotContains(t, s.must(t, http.StatusOK, "GET /v1/subscriptions", "", as(as2.token)...).text, `"hers"`)
	s.labelled(t, "/a", "one", "SECRET", `{"mark":"`+hidden+`"}`)
	hers.Wait(1)
	for _, r := range evil.Requests() {
		require.NotContains(t, string(r.Body), hidden)
	}
}

// An admin who is not cleared does not get what is labelled by pointing another's subscription at itself.
func TestPatch_AdminGetsNoHiddenEventsByForeignSubscriptions(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	s.must(t, http.StatusOK, "PUT /v1/principals/user:ann", `{"clearance":{"level":"SECRET"}}`)
	hers, evil := hooktest.New(t, nil), hooktest.New(t, nil)
	ann := s.grant(t, "user:ann", "scope:default", "subscribe")
	eve := s.grant(t, "user:eve", "scope:default", "admin")
	for _, maker := range []string{ann.token, s.token} {
		id := s.made(t, maker, wish(hers.URL, `"pattern":"/a/**"`))
		s.must(t, http.StatusOK, "PATCH /v1/subscriptions/"+id, `{"endpoint":{"url":"`+evil.URL+`"}}`, as(eve.token)...)
	}
	s.labelled(t, "/a", "one", "SECRET", `{"mark":"`+hidden+`"}`)
	s.labelled(t, "/a", "two", "PUBLIC", `{"mark":"open"}`)
	evil.Wait(2)
	for _, r := range evil.Requests() {
		require.NotContains(t, string(r.Body), hidden)
	}
}

// An event that a reader may not see does not show in where a page ends, for any question: C14.
func TestCursor_RevealsNoHiddenEvents(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	hook := hooktest.New(t, nil)
	eve := s.grant(t, "user:eve", "path:default/a/**", "read subscribe")
	s.labelled(t, "/a/x", "sec", "SECRET", `{"salary":123}`)
	s.labelled(t, "/pay/ceo", "pay", "PUBLIC", `{"salary":123}`)
	s.labelled(t, "/z", "last", "PUBLIC", `{}`)
	same := func(there, absent string, body ...string) {
		t.Helper()
		x, y := s.call(t, there, strings.Join(body, ""), as(eve.token)...), s.call(t, absent, strings.Join(body, ""), as(eve.token)...)
		require.Equal(t, y.status, x.status, "%s: %s %s", there, x.text, y.text)
		strip := func(r string) string { return requestIDs.ReplaceAllString(r, "") }
		require.Equal(t, strip(y.text), strip(x.text), there)
	}
	list := "GET /v1/namespaces/default/events?limit=1&"
	same(list+"pattern=/pay/ceo", list+"pattern=/pay/none")
	same(list+"pattern=/pay/**", list+"pattern=/none/**")
	same(list+"pattern=/a/x&types=t", list+"pattern=/a/x&types=u")
	same(list+"since=pay", list+"since=none")
	same(list+"until=pay", list+"until=none")
	same("GET /v1/namespaces/default/events/pay", "GET /v1/namespaces/default/events/none")
	same("GET /v1/namespaces/default/events/2", "GET /v1/namespaces/default/events/99")

	filtered := func(cel string) string {
		return s.made(t, eve.token, wish(hook.URL+"/"+url.PathEscape(cel), `"pattern":"/a/**"`, `"start":"all"`, fmt.Sprintf(`"filter":{"cel":%q}`, cel)))
	}
	yes, no := filtered("event.data.salary > 100"), filtered("event.data.salary > 1000")
	same("GET /v1/subscriptions/"+yes+"/events?limit=1", "GET /v1/subscriptions/"+no+"/events?limit=1")
	same("GET /v1/subscriptions/"+yes+"/events?after=pay", "GET /v1/subscriptions/"+yes+"/events?after=none")
	same("POST /v1/subscriptions/"+yes+"/replay", "POST /v1/subscriptions/"+no+"/replay", `{"dry_run":true}`)
	y := s.call(t, "POST /v1/subscriptions/"+yes+"/replay", `{"dry_run":true,"from":"pay"}`, as(eve.token)...)
	n := s.call(t, "POST /v1/subscriptions/"+yes+"/replay", `{"dry_run":true,"from":"none"}`, as(eve.token)...)
	require.Equal(t, n.status, y.status, y.text)
	y, n = s.call(t, "POST /v1/subscriptions/"+yes+"/seek", `{"to":"pay"}`, as(eve.token)...), s.call(t, "POST /v1/subscriptions/"+yes+"/seek", `{"to":"none"}`, as(eve.token)...)
	require.Equal(t, n.status, y.status, y.text)
	require.Empty(t, hook.Requests())
}

// An endpoint's answer may repeat what it was sent: with an event that was erased, or whose label is gone with it, it is
// not shown any more.
func TestErase_EventIsNotInItsAttempts(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	s.must(t, http.StatusOK, "PUT /v1/principals/user:ann", `{"clearance":{"level":"SECRET"}}`)
	ann, eve := s.grant(t, "user:ann", "scope:default", "subscribe"), s.grant(t, "user:eve", "scope:default", "admin")
	hook := hooktest.New(t, func(r hooktest.Request) hooktest.Answer {
		return hooktest.Answer{Status: http.StatusServiceUnavailable, Body: string(r.Body)}
	})
	id := s.made(t, ann.token, wish(hook.URL, `"pattern":"/a/**"`, quick))
	s.labelled(t, "/a/1", "one", "SECRET", `{"mark":"`+hidden+`"}`)
	story := "GET /v1/subscriptions/" + id + "/deliveries/one"
	eventually(t, func() bool {
		return strings.Contains(s.must(t, http.StatusOK, story, "", as(ann.token)...).text, hidden)
	}, "she sees what came back")
	s.must(t, http.StatusNotFound, story, "", as(eve.token)...)
	s.must(t, http.StatusCreated, "POST /v1/namespaces/default/tombstones", `{"path":"/a/1"}`)
	for _, token := range []string{ann.token, eve.token, s.token} {
		s.must(t, http.StatusNotFound, story, "", as(token)...)
	}
}

// A principal that gives a name away and loops under it is marked, and not the principal of that name.
func TestUnsafeProducer_MarkIsOnTheIssuerOfAName(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	ann, eve := s.grant(t, "user:ann", "scope:default", "publish"), s.grant(t, "user:eve", "path:default/m/**", "publish")
	forgery := s.grant(t, "user:ann", "path:default/m/**", "publish", eve.token)
	publish := func(token, id, cause, path string) int {
		return s.call(t, "POST /v1/namespaces/default/events",
			fmt.Sprintf(`{"specversion":"1.0","type":"t","source":"/s","id":%q,"path":%q,"causationid":%q,"data":1}`, id, path, cause), as(token)...).status
	}
	s.must(t, http.StatusCreated, "POST /v1/namespaces/default/events", `{"specversion":"1.0","type":"t","source":"/s","id":"m1","path":"/m/1","data":1}`, as(forgery.token)...)
	require.Equal(t, http.StatusConflict, publish(forgery.token, "m2", "m1", "/m/1"))
	marks := s.must(t, http.StatusOK, "GET /v1/producers/unsafe", "").text
	require.Contains(t, marks, `"user:eve"`)
	require.NotContains(t, marks, `"user:ann"`)
	require.Equal(t, http.StatusCreated, publish(ann.token, "a1", "m1", "/other"))
	require.Equal(t, http.StatusConflict, publish(forgery.token, "m3", "m1", "/m/2"))
}

var requestIDs = regexp.MustCompile(`"request_id":"[^"]*"`)
