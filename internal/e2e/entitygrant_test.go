package e2e_test

import (
	"net/http"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/testkit/hooktest"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

const anEntity = "urn:order:7"

// aboutOrders publishes an event about the entity on each of two paths, and some about others.
func (s *running) aboutOrders(t *testing.T) {
	t.Helper()
	for _, e := range []sluice.Event{
		{ID: "other", Path: "/orders/8", Subject: "urn:order:8"},
		{ID: "related", Path: "/orders/9", Subject: "urn:order:9", Extensions: map[string]string{sluice.RelatedSubjects: anEntity}},
		{ID: "bare", Path: "/orders/7"},
		{ID: "first", Path: "/orders/7", Subject: anEntity},
		{ID: "second", Path: "/invoices/1", Subject: anEntity},
	} {
		e.Type, e.Source, e.Data = "fact_assert", "/node", []byte(`{"mark":"`+e.ID+`"}`)
		_, err := s.api.Publish(t.Context(), sluice.DefaultNamespace, e)
		require.NoError(t, err)
	}
}

// S0-54, S0-59: a grant for an entity suffices for a subscription to it, which gets its events on any path, and
// nothing that is about others; it shows its holder what became of these alone.
func TestEntityGrant_Suffices(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	hook := hooktest.New(t, nil)
	g := s.grant(t, "user:ann", "entity:default/"+anEntity, "subscribe")
	id := s.made(t, g.token, `{"target":"entity:`+anEntity+`","on_change":"webhook","webhook_url":"`+hook.URL+`"}`)
	s.aboutOrders(t)
	_, err := dial(t, s.at.NATS).PublishMsg(t.Context(), &nats.Msg{
		Subject: jsNames(t).EventsPrefix() + "default.orders.10", Header: nats.Header{"Content-Type": {"application/cloudevents+json"}}, Data: []byte(`{broken`),
	})
	require.NoError(t, err)
	s.aboutLast(t)
	statusOf(t, s.api, id, idle)
	require.ElementsMatch(t, []string{"first", "second", "last"}, idsOf(hook.Wait(3)))
	require.Equal(t, "active", s.stateOf(t, id))

	ann := as(g.token)
	require.Contains(t, s.must(t, http.StatusOK, "GET /v1/subscriptions", "", ann...).text, id)
	page := s.must(t, http.StatusOK, "GET /v1/subscriptions/"+id+"/deliveries", "", ann...).text
	events := s.must(t, http.StatusOK, "GET /v1/subscriptions/"+id+"/events?after=-1", "", ann...).text
	for _, own := range []string{"first", "second", "last"} {
		require.Contains(t, page, `"event_id":"`+own+`"`)
		require.Contains(t, events, `"event_id":"`+own+`"`)
		s.must(t, http.StatusOK, "GET /v1/subscriptions/"+id+"/deliveries/"+own, "", ann...)
	}
	require.NotContains(t, s.must(t, http.StatusOK, "GET /v1/namespaces/default/attempts?after=0&subscription="+id, "", ann...).text, `"event_id":"other"`)
	require.InDelta(t, 3, s.must(t, http.StatusOK, "POST /v1/subscriptions/"+id+"/match", `{"event_id":"first"}`, ann...).field(t, "examined"), 0, "its own events")
	for _, other := range []string{"other", "related", "bare"} {
		require.NotContains(t, page, `"`+other+`"`)
		require.NotContains(t, events, `"`+other+`"`)
		s.must(t, http.StatusNotFound, "GET /v1/subscriptions/"+id+"/deliveries/"+other, "", ann...)
	}
	letters, err := s.api.DeadLetters(t.Context(), id, client.DeadLettersQuery{})
	require.NoError(t, err)
	require.Empty(t, letters.Items, "what cannot be read is not known to be about the entity")
}

func (s *running) aboutLast(t *testing.T) {
	t.Helper()
	_, err := s.api.Publish(t.Context(), sluice.DefaultNamespace, sluice.Event{ID: "last", Path: "/x", Subject: anEntity, Type: "t", Source: "/s", Data: []byte(`{}`)})
	require.NoError(t, err)
}

// Dead letters of an entity's events are for who has the grant, those of others are not.
func TestEntityGrant_ShowsItsDeadLetters(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	hook := hooktest.New(t, status(http.StatusBadRequest, func(hooktest.Request) bool { return true }))
	g := s.grant(t, "user:ann", "entity:default/"+anEntity, "subscribe")
	id := s.made(t, g.token, wish(hook.URL, `"filter":{"subjects":["`+anEntity+`"]}`, `"policy":{"retry":{"preset":"custom","steps":["1s"],"max_attempts":1}}`))
	s.aboutOrders(t)
	statusOf(t, s.api, id, func(st sluice.Status) bool { return idle(st) && st.DeadLetters == 2 })
	letters := s.must(t, http.StatusOK, "GET /v1/subscriptions/"+id+"/dead-letters", "", as(g.token)...).text
	require.Contains(t, letters, `"event_id":"first"`)
	require.Contains(t, letters, `"event_id":"second"`)
	require.Contains(t, s.must(t, http.StatusOK, "GET /v1/subscriptions/"+id+"/dead-letters/first", "", as(g.token)...).text, "mark")
}

// A grant for an entity is for nothing else: no other target, no reading, no feeds, no streams, no wakes.
func TestEntityGrant_IsForNothingElse(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	hook := hooktest.New(t, nil)
	s.aboutOrders(t)
	s.must(t, http.StatusCreated, "PUT /streams/default/orders/s", `0`)
	g := s.grant(t, "user:ann", "entity:default/"+anEntity, "subscribe")
	ann := as(g.token)
	id := s.made(t, g.token, `{"target":"entity:`+anEntity+`","on_change":"webhook","webhook_url":"`+hook.URL+`"}`)
	refused := func(status int, code, line, body string) {
		t.Helper()
		r := s.must(t, status, line, body, ann...)
		require.Contains(t, r.text, code, "%s %s", line, body)
	}
	const made = "POST /v1/subscriptions"
	for _, body := range []string{
		`{"target":"entity:urn:order:8","on_change":"webhook","webhook_url":"` + hook.URL + `"}`,
		`{"target":"scope:default","on_change":"webhook","webhook_url":"` + hook.URL + `"}`,
		wish(hook.URL),
		wish(hook.URL, `"pattern":"/orders/**"`),
		wish(hook.URL, `"pattern":"/_sys/**"`, `"filter":{"subjects":["`+anEntity+`"]}`),
		wish(hook.URL, `"filter":{"subjects":["`+anEntity+`","urn:order:8"]}`),
		wish(hook.URL, `"mode":"wake"`, `"pattern":"/orders/*"`),
	} {
		refused(http.StatusForbidden, "capability_required", made, body)
	}
	refused(http.StatusForbidden, "capability_required", "PATCH /v1/subscriptions/"+id, `{"filter":{"subjects":null}}`)
	refused(http.StatusForbidden, "capability_required", "PATCH /v1/subscriptions/"+id, `{"filter":{"subjects":["urn:order:8"]}}`)
	require.Contains(t, s.must(t, http.StatusOK, "GET /v1/subscriptions/"+id, "").text, `"subjects":["`+anEntity+`"]`, "nothing was changed")
	for _, line := range []string{
		"GET /v1/namespaces/default/events", "GET /v1/namespaces/default/events/first", "GET /v1/namespaces/default/feed",
		"GET /v1/namespaces/default/feed?target=entity:" + anEntity, "GET /v1/namespaces/default/state", "POST /v1/namespaces/default/feed/tickets",
	} {
		refused(http.StatusForbidden, "capability_required", line, "")
	}
	s.must(t, http.StatusForbidden, "POST /v1/namespaces/default/events", `{"path":"/orders/7","subject":"`+anEntity+`","data":{}}`, ann...)
	refused(http.StatusForbidden, "capability_required", "GET /streams/default/orders/s?offset=-1", "")
	s.must(t, http.StatusForbidden, "PUT /streams/default/__ds/subscriptions/x",
		`{"type":"webhook","webhook":{"url":"`+hook.URL+`"},"streams":["orders/s"]}`, ann...)

	for object, verbs := range map[string]string{"entity:default/" + anEntity: "read", "entity:default/urn:order:1": "subscribe admin"} {
		s.must(t, http.StatusBadRequest, "POST /v1/grants", grantBody("user:eve", object, verbs))
	}
}

// Who gives a grant for an entity has one that covers it: for the namespace or the same entity, not for paths.
func TestEntityGrant_ComesOfOneThatCoversIt(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	hook := hooktest.New(t, nil)
	whole := s.grant(t, "user:ann", "scope:default", "subscribe")
	paths := s.grant(t, "user:bob", "path:default/**", "subscribe")
	one := s.grant(t, "ai_agent:bot", "entity:default/"+anEntity, "subscribe", whole.token)
	below := s.grant(t, "service:erp", "entity:default/"+anEntity, "subscribe", one.token)
	for _, token := range []string{paths.token, one.token} {
		for _, object := range []string{"entity:default/urn:order:8", "scope:default", "entity:shop/" + anEntity} {
			s.must(t, http.StatusForbidden, "POST /v1/grants", grantBody("user:eve", object, "subscribe"), as(token)...)
		}
	}
	s.must(t, http.StatusForbidden, "POST /v1/grants", grantBody("user:eve", "entity:default/"+anEntity, "subscribe"), as(paths.token)...)
	s.must(t, http.StatusForbidden, "POST /v1/grants", grantBody("user:eve", "path:default/orders/**", "subscribe"), as(one.token)...)

	id := s.made(t, below.token, `{"target":"entity:`+anEntity+`","on_change":"webhook","webhook_url":"`+hook.URL+`"}`)
	s.aboutOrders(t)
	hook.Wait(2)
	s.must(t, http.StatusOK, "POST /v1/grants/"+one.id+"/revoke", "")
	require.Equal(t, "cancelled access_revoked", s.stateOf(t, id))
}
