package authz_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/authz"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// present is a world in which it is now: gates read the clock themselves.
func present(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.now = time.Now()
	return w
}

var root = sluice.Caller{Principal: sluice.Root}

func TestPayer_IsTheRootOfTheChain(t *testing.T) {
	t.Parallel()
	w := present(t)
	w.grant("of", ann, "scope:acme", "subscribe")
	part := w.part("part", "of", bot, "scope:acme", "subscribe")
	require.Equal(t, string(ann), w.Payer(subscriptionOf(part, "/**")))
	require.Empty(t, w.Payer(&sluice.Subscription{Namespace: "acme", Lifecycle: sluice.Lifecycle{CreatedBy: string(sluice.Root)}}), "the operator pays nothing")
}

func TestMayKnow_AsksForThePublishersRight(t *testing.T) { // S1: a duplicate elsewhere is not told
	t.Parallel()
	w := present(t)
	reader := w.grant("reader", ann, "scope:acme", "read")
	publisher := w.grant("publisher", bot, "path:acme/a/**", "publish")
	know := func(c sluice.Caller, path sluice.Path) bool {
		return w.MayKnow(model.WithCaller(t.Context(), c), event(path, 1))
	}
	require.True(t, know(root, "/b"))
	require.True(t, know(caller(publisher), "/a/1"))
	require.False(t, know(caller(publisher), "/b"))
	require.False(t, know(caller(reader), "/a/1"))
}

func TestSubscribing_AsksForTheCallersRights(t *testing.T) { // S0-55…S0-63
	t.Parallel()
	w := present(t)
	gate := authz.Subscribing{Index: w.Index}
	w.grant("of", bot, "scope:acme", "subscribe")
	mine := w.part("mine", "of", ann, "path:acme/a/**", "subscribe") // another gave it the name
	other := w.grant("other", ann, "scope:acme", "subscribe")
	ctx := model.WithCaller(t.Context(), caller(mine))
	require.NoError(t, gate.MaySubscribe(ctx, subscriptionOf(mine, "/a/*")))
	require.Equal(t, incapable, sluice.CodeOf(gate.MaySubscribe(ctx, subscriptionOf(mine, "/b"))))
	require.True(t, gate.Shows(ctx, event("/a/1", 1)))
	require.False(t, gate.Shows(ctx, event("/b", 1)))
	require.True(t, gate.Owns(ctx, subscriptionOf(mine, "/a/*")))
	require.False(t, gate.Owns(ctx, subscriptionOf(other, "/a/*")))
	require.True(t, gate.Owns(model.WithCaller(t.Context(), root), subscriptionOf(other, "/a/*")))
}

func TestStreamGate_DecidesForTheCreator(t *testing.T) {
	t.Parallel()
	w := present(t)
	gate := authz.StreamGate{Index: w.Index}
	g := w.grant("g", ann, "path:acme/a/**", "subscribe", "publish")
	reader := w.grant("reader", bot, "scope:acme", "read")
	require.Equal(t, model.Pass, gate.Shows(caller(g), "acme", "/a/1", 7))
	require.Equal(t, model.Lost, gate.Shows(caller(reader), "acme", "/a/1", 7))
	require.Equal(t, model.Pass, gate.Writes(caller(g), "acme", "/a/1"))
	require.Equal(t, model.Lost, gate.Writes(caller(g), "acme", "/b"))
	require.Equal(t, model.Lost, gate.Writes(caller(reader), "acme", "/a/1"))
	require.Equal(t, model.Pass, gate.Holds(subscriptionOf(g, "/a/*")))
	w.revoke(g)
	require.Equal(t, model.Lost, gate.Holds(subscriptionOf(g, "/a/*")))
	w.Until(time.Now().Add(-time.Second))
	require.Equal(t, model.Undecided, gate.Writes(caller(g), "acme", "/a/1"), "revocations may be missing")
}

func TestWatchGate_UnknownGrantIsLostAfterAMinute(t *testing.T) {
	t.Parallel()
	w := present(t)
	gate := authz.WatchGate{Index: w.Index, Now: func() time.Time { return w.now }}
	g := w.grant("g", ann, "path:acme/a/**", "read")
	made := func(grant string, ago time.Duration) sluice.Creator {
		return sluice.Creator{CreatedBy: ann, Grant: grant, CreatedAt: w.now.Add(-ago)}
	}
	shows := func(c sluice.Creator, path sluice.Path) model.Decision { return gate.Shows(c, event(path, 1)) }
	require.Equal(t, model.Pass, shows(made("g", time.Hour), "/a/1"))
	require.Equal(t, model.Lost, shows(made("g", time.Second), "/b"))
	require.Equal(t, model.Undecided, shows(made("unknown", time.Minute-1), "/a/1"), "it may be on its way")
	require.Equal(t, model.Lost, shows(made("unknown", time.Minute), "/a/1"), "its record was removed")

	part := w.part("part", "unknown", ann, "path:acme/a/**", "read")
	require.Equal(t, model.Undecided, shows(made(part.ID, time.Hour), "/a/1"), "a known grant with an unknown parent")
	w.Until(w.now.Add(-time.Second))
	require.Equal(t, model.Undecided, shows(made("unknown", time.Hour), "/a/1"), "permissions are not loaded")
	require.Equal(t, model.Undecided, shows(made(g.ID, time.Hour), "/a/1"))
}
