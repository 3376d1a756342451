package authz_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/authz"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

const order = "urn:order:7"

// S0-54: a grant for an entity is for a subscription to that entity, on any path, and for nothing else.
func TestEntityGrant_IsForItsEntityAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.grant("g", ann, "entity:acme/"+order, "subscribe")
	for _, c := range []struct {
		target authz.Target
		verb   sluice.Verb
		code   sluice.Code
	}{
		{authz.Target{Namespace: "acme", Pattern: "/**", Entity: order}, "subscribe", yes},
		{authz.Target{Namespace: "acme", Pattern: "/orders/**", Entity: order}, "subscribe", yes},
		{authz.Target{Namespace: "acme", Pattern: "/**", Entity: "urn:order:8"}, "subscribe", incapable},
		{authz.Target{Namespace: "acme", Pattern: "/**", Entity: order + "/x"}, "subscribe", incapable},
		{authz.Target{Namespace: "acme", Pattern: "/_sys/**", Entity: order}, "subscribe", incapable},
		{authz.Target{Namespace: "acme", Pattern: "/**", Entity: order}, "read", incapable},
		{authz.Target{Namespace: "acme", Pattern: "/**", Entity: order}, "admin", incapable},
		{authz.Target{Namespace: "acme", Pattern: "/**"}, "subscribe", incapable},
		{authz.Target{Namespace: "acme", Path: "/orders/7"}, "subscribe", incapable},
		{authz.Target{Namespace: "acme"}, "subscribe", incapable},
		{authz.Target{Namespace: "other", Pattern: "/**", Entity: order}, "subscribe", hidden},
		{authz.Target{}, "subscribe", incapable},
	} {
		require.Equal(t, c.code, sluice.CodeOf(w.Require(caller(g), c.verb, c.target, w.now)), "%s %+v", c.verb, c.target)
	}
	elsewhere := w.grant("p", ann, "path:acme/orders/**", "subscribe")
	require.Equal(t, incapable, sluice.CodeOf(w.Require(caller(elsewhere), "subscribe", authz.Target{Namespace: "acme", Pattern: "/**", Entity: order}, w.now)),
		"an entity's events may lie on other paths")
}

func about(entity string, path sluice.Path) *sluice.Event {
	ev := event(path, 1)
	ev.Subject = entity
	return ev
}

// S0-59: each event is held to the entity again; what is about others is passed over, and the subscription stays.
func TestEntityGrant_HoldsEachEventToIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.grant("g", ann, "entity:acme/"+order, "subscribe")
	sub := subscriptionOf(g, "/**")
	related := about("urn:order:8", "/b")
	related.Extensions = map[string]string{sluice.RelatedSubjects: order}
	place := about(order, "/a")
	place.ID = ""
	for name, c := range map[string]struct {
		ev   *sluice.Event
		want model.Decision
	}{
		"its own":                       {about(order, "/a"), model.Pass},
		"its own elsewhere":             {about(order, "/x/y"), model.Pass},
		"another's":                     {about("urn:order:8", "/a"), model.Withhold},
		"another's that names it":       {related, model.Withhold},
		"one without subject":           {about("", "/a"), model.Withhold},
		"a place without an event":      {place, model.Withhold},
		"the server's own":              {about(order, "/_sys/x"), model.Lost},
		"one that is labelled too high": {&sluice.Event{Namespace: "acme", Path: "/a", ID: "e", Subject: order, Extensions: map[string]string{sluice.AttributeClassification: "SECRET"}}, model.Withhold},
	} {
		require.Equal(t, c.want, w.Decide(sub, c.ev, w.now), name)
	}
	require.Equal(t, model.Lost, w.Shows(caller(g), sluice.VerbRead, about(order, "/a"), w.now), "it is not for reading")

	w.acl(ann, line(sluice.TierRead, "/orders/**"))
	require.Equal(t, model.Pass, w.Decide(sub, about(order, "/orders/7"), w.now))
	require.Equal(t, model.Lost, w.Decide(sub, about(order, "/a"), w.now), "the access list is asked for the path")
	w.revoke(g)
	require.Equal(t, model.Lost, w.Decide(sub, about("urn:order:8", "/orders/7"), w.now), "revocation comes first for any event")
}

// An entity that is a path is that of events without a subject, and says nothing of streams and other events there.
func TestEntityGrant_OfAPath(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.grant("g", ann, "entity:acme//orders/7", "subscribe")
	require.Equal(t, model.Pass, w.Decide(subscriptionOf(g, "/**"), event("/orders/7", 1), w.now))
	require.Equal(t, model.Withhold, w.Decide(subscriptionOf(g, "/**"), about(order, "/orders/7"), w.now))
	require.Equal(t, model.Withhold, w.Decide(subscriptionOf(g, "/**"), &sluice.Event{Namespace: "acme", Path: "/orders/7", Seq: 1}, w.now))
	require.Equal(t, incapable, w.may(caller(g), "subscribe", "/orders/7"))
}

// Every grant of a chain bounds what those below it are shown; a subscription ends when it asks for another entity than
// its grant is for.
func TestEntityGrant_BoundsItsChain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.grant("whole", ann, "scope:acme", "subscribe")
	w.part("one", "whole", bot, "entity:acme/"+order, "subscribe")
	below := w.part("below", "one", "service:erp", "entity:acme/"+order, "subscribe")
	forged := w.part("forged", "one", "service:erp", "scope:acme", "subscribe")
	require.Equal(t, model.Pass, w.Decide(subscriptionOf(below, "/**"), about(order, "/a"), w.now))
	for _, g := range []*authz.Granted{below, forged} {
		require.Equal(t, model.Withhold, w.Decide(subscriptionOf(g, "/**"), about("urn:order:8", "/a"), w.now), g.ID)
	}
	sub := subscriptionOf(below, "/**")
	sub.Mode, sub.Filter.Subjects = sluice.Push, []string{order}
	require.Equal(t, model.Pass, w.Holds(sub, w.now))
	sub.Filter.Subjects = []string{"urn:order:8"}
	require.Equal(t, model.Lost, w.Holds(sub, w.now))
}

// Only what is pushed is held to an entity: a wake tells of streams, which have none.
func TestEntityGrant_IsForNoWake(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.grant("g", ann, "entity:acme/"+order, "subscribe")
	sub := subscriptionOf(g, "/**")
	sub.Filter.Subjects = []string{order}
	for mode, code := range map[sluice.Mode]sluice.Code{sluice.Push: yes, sluice.Wake: incapable} {
		sub.Mode = mode
		require.Equal(t, code, sluice.CodeOf(w.Require(caller(g), sluice.VerbSubscribe, authz.TargetOf(sub.Object()), w.now)), mode)
	}
}
