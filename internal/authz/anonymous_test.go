package authz_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/authz"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

func anonymous() sluice.Caller { return sluice.Caller{Principal: sluice.Anonymous} }

// In a namespace that the operator opened, an anonymous caller may use paths, and ask to be woken by
// them, but for the server's own; nowhere else, and never as an admin.
func TestOpenNamespace_LetsAnonymousCallersUsePaths(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	require.Equal(t, sluice.Unauthenticated, w.may(anonymous(), sluice.VerbRead, "/a"))
	w.Open([]string{"acme"})
	for _, v := range []sluice.Verb{sluice.VerbRead, sluice.VerbPublish, sluice.VerbSubscribe} {
		require.Empty(t, w.may(anonymous(), v, "/a"), v)
		require.Empty(t, w.may(anonymous(), v, "/**"), v)
		require.Equal(t, sluice.Unauthenticated, w.may(anonymous(), v, "/_sys/server"), v)
		require.Equal(t, sluice.Unauthenticated, w.may(anonymous(), v, "/_sys/**"), v)
		require.Equal(t, sluice.Unauthenticated, w.may(anonymous(), v, ""), v)
		elsewhere := authz.Target{Namespace: "elsewhere", Path: "/a"}
		require.Equal(t, sluice.Unauthenticated, sluice.CodeOf(w.Require(anonymous(), v, elsewhere, w.now)), v)
		require.NoError(t, w.Some(anonymous(), v, "acme", w.now), v)
		require.Equal(t, sluice.Unauthenticated, sluice.CodeOf(w.Some(anonymous(), v, "elsewhere", w.now)), v)
	}
	require.Equal(t, sluice.Unauthenticated, sluice.CodeOf(w.Some(anonymous(), sluice.VerbAdmin, "acme", w.now)))
	require.Equal(t, sluice.Unauthenticated, w.may(anonymous(), sluice.VerbAdmin, "/a"))
	w.Until(w.now)
	require.Equal(t, sluice.Unavailable, w.may(anonymous(), sluice.VerbRead, "/a"))
}

// The gate lets events to anonymous subscriptions pass for as long as the namespace is open.
func TestOpenNamespace_AnonymousSubscriptionHoldsWhileOpen(t *testing.T) {
	t.Parallel()
	sub := &sluice.Subscription{ID: "s", Namespace: "acme", Pattern: "/**", Lifecycle: sluice.Lifecycle{CreatedBy: string(sluice.Anonymous)}}
	labelled := event("/a", 3)
	labelled.Extensions = map[string]string{sluice.AttributeClassification: "INTERNAL"}
	open := func(t *testing.T) *world {
		t.Helper()
		w := newWorld(t)
		w.Open([]string{"acme"})
		require.Equal(t, model.Pass, w.Decide(sub, event("/a", 3), w.now))
		require.Equal(t, model.Pass, w.Holds(sub, w.now))
		require.Equal(t, model.Withhold, w.Decide(sub, labelled, w.now))
		require.Equal(t, model.Withhold, w.Decide(sub, event("/_sys/server", 3), w.now))
		return w
	}
	for name, end := range map[string]func(*world){
		"a label":        func(w *world) { w.label(sluice.Label{Level: sluice.LevelInternal}) },
		"an access list": func(w *world) { w.acl(ann, line(sluice.TierRead, "")) },
	} {
		w := open(t)
		end(w)
		require.Equal(t, model.Lost, w.Decide(sub, event("/a", 3), w.now), name)
		require.Equal(t, model.Lost, w.Holds(sub, w.now), name)
	}
	w := open(t)
	w.put(streams.TombstoneKey("acme", "/a"), authz.Record{Tombstone: &sluice.Tombstone{Namespace: "acme", Path: "/a", UpTo: 3}})
	require.Equal(t, model.Withhold, w.Decide(sub, event("/a", 3), w.now))
	require.Equal(t, model.Pass, w.Decide(sub, event("/a", 4), w.now))
	w.Until(w.now)
	require.Equal(t, model.Undecided, w.Decide(sub, event("/a", 4), w.now))
	require.Equal(t, model.Undecided, w.Holds(sub, w.now))

	w = open(t)
	w.put(streams.LabelKey("acme"), authz.Record{Unreadable: true}) // written by a later version, say
	require.Equal(t, model.Undecided, w.Decide(sub, event("/a", 3), w.now))
	require.Equal(t, sluice.Unavailable, w.may(anonymous(), sluice.VerbRead, "/a"))

	closed := newWorld(t)
	require.Equal(t, model.Lost, closed.Decide(sub, event("/a", 3), closed.now), "the operator opened it once, and not any more")
	require.Equal(t, model.Lost, closed.Holds(sub, closed.now))
}

// Anonymous callers are one principal, and no other.
func TestAnonymous_IsOnePrincipal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.grant("g", ann, "scope:acme", sluice.VerbSubscribe)
	require.True(t, w.Same(anonymous(), "", sluice.Object{Namespace: "acme"}, w.now))
	require.False(t, w.Same(anonymous(), g.ID, sluice.Object{Namespace: "acme"}, w.now))
}
