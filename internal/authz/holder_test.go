package authz_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/authz"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// A holder can give a part of its grant to any name; a principal of that name does not become its holder.
func TestGrant_NameIsNotItsHolder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme := sluice.Object{Namespace: "acme"}
	admin := w.grant("admin", "user:admin", "scope:acme", "admin")
	hers := w.grant("hers", ann, "scope:acme", "subscribe")
	w.grant("eves", "user:eve", "scope:acme", "subscribe")
	w.grant("elsewhere", "user:else", "scope:other", "admin")
	byEve := w.part("by-eve", "eves", ann, "scope:acme", "subscribe")
	own := w.part("own", "hers", ann, "path:acme/a/**", "subscribe")
	byElse := w.part("by-else", "elsewhere", ann, "scope:other", "subscribe")
	byAdmin := w.part("by-admin", "admin", ann, "scope:acme", "subscribe")
	under := w.part("under", "by-eve", ann, "scope:acme", "subscribe")
	for _, c := range []struct {
		who   *authz.Granted
		grant string
		same  bool
	}{
		{hers, "hers", true},
		{hers, "by-eve", true},
		{own, "hers", true},
		{own, "own", true},
		{byAdmin, "hers", true},
		{byEve, "hers", false},
		{under, "hers", false},
		{byElse, "hers", false},
		{byEve, "own", false},
		{byEve, "by-eve", true},
		{byEve, "under", true},
		{under, "by-eve", true},
	} {
		require.Equal(t, c.same, w.Same(caller(c.who), c.grant, acme, w.now), "%s, %s", c.who.ID, c.grant)
	}
	w.revoke(admin)
	require.False(t, w.Same(caller(byAdmin), "hers", acme, w.now), "a former admin vouches for no other")
}

func TestGrant_IssuerAnswersForTheName(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.grant("admin", "user:admin", "scope:acme", "admin")
	hers := w.grant("hers", ann, "scope:acme", "publish")
	w.grant("eves", "user:eve", "scope:acme", "publish")
	byEve := w.part("by-eve", "eves", ann, "scope:acme", "publish")
	again := w.part("again", "by-eve", bot, "scope:acme", "publish")
	byAdmin := w.part("by-admin", "admin", ann, "scope:acme", "publish")
	for g, who := range map[*authz.Granted]sluice.Principal{hers: ann, byAdmin: ann, byEve: "user:eve", again: "user:eve"} {
		require.Equal(t, who, w.Answers(caller(g), "acme", w.now), g.ID)
	}
}

// What bounds a namespace and cannot be read, because it is damaged or a later version wrote it, is not nothing.
func TestIndex_UnreadableBoundLeavesItsNamespaceUndecided(t *testing.T) {
	t.Parallel()
	for key, text := range map[string]string{
		streams.ACLKey("acme", ""):         `{"admins":7}`,
		streams.LabelKey("acme"):           `{"label":{"namespace":"acme","label":{"level":"COSMIC"}}}`,
		streams.TombstoneKey("acme", "/a"): `{"later":{}}`,
	} {
		w := newWorld(t)
		w.acl(ann, line(sluice.TierRead, "/**"))
		g := w.grant("g", ann, "scope:acme", "read", "subscribe")
		require.Empty(t, w.may(caller(g), "read", "/a"))
		before := w.Record(key)
		var r authz.Record
		require.NoError(t, json.Unmarshal([]byte(text), &r))
		w.put(key, r)
		require.Equal(t, sluice.Unavailable, w.may(caller(g), "read", "/a"), key)
		require.Equal(t, model.Undecided, w.Decide(subscriptionOf(g, "/**"), event("/a", 1), w.now), key)
		require.Equal(t, model.Undecided, w.Holds(subscriptionOf(g, "/**"), w.now), "no subscription is cancelled for it")
		if r.Unreadable {
			require.NotNil(t, w.Takes(before, r), "what is on its way is cut off")
		}
		other := w.grant("o", ann, "scope:other", "read")
		require.NoError(t, w.Sees(caller(other), "other", w.now))
		w.acl(ann, line(sluice.TierRead, "/**"))
		w.label(sluice.Label{})
		w.put(streams.TombstoneKey("acme", "/a"), authz.Record{Tombstone: &sluice.Tombstone{Namespace: "acme", Path: "/a"}})
		require.Empty(t, w.may(caller(g), "read", "/a"), "until it can be read again")
	}
	w := newWorld(t)
	var r authz.Record
	require.NoError(t, json.Unmarshal([]byte(`{"grant":[]}`), &r))
	g := w.grant("g", ann, "scope:acme", "read")
	w.put(streams.GrantKey("g"), r)
	require.Equal(t, sluice.Unavailable, w.may(caller(g), "read", "/a"), "a grant that cannot be read is none")
}

// S4-13: a name says what its giver wrote; the chain says what its holder is.
func TestAuthType_IsOfTheWholeChain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	hers := w.grant("hers", ann, "scope:acme", "publish")
	agents := w.grant("agents", bot, "scope:acme", "publish")
	behalf := w.grant("behalf", "service:erp", "scope:acme", "publish")
	behalf.OnBehalfOf = bot
	w.save(behalf)
	for _, c := range []struct {
		who  *authz.Granted
		want string
	}{
		{hers, "user"},
		{w.grant("s", "system:sync", "scope:acme", "publish"), "system"},
		{w.grant("e", "service:erp", "scope:acme", "publish"), "service_account"},
		{agents, "ai_agent"},
		{behalf, "ai_agent"},
		{w.part("1", "agents", ann, "scope:acme", "publish"), "ai_agent"},
		{w.part("2", "1", "service:erp", "scope:acme", "publish"), "ai_agent"},
		{w.part("3", "hers", bot, "scope:acme", "publish"), "ai_agent"},
		{w.part("4", "hers", "service:erp", "scope:acme", "publish"), "service_account"},
		{w.part("5", "hers", "system:old", "scope:acme", "publish"), "user"},
		{w.part("6", "agents", "system:old", "scope:acme", "publish"), "ai_agent"},
		{w.part("7", "nowhere", ann, "scope:acme", "publish"), "unknown"},
	} {
		require.Equal(t, c.want, w.AuthType(caller(c.who)), c.who.ID)
	}
	for p, want := range map[sluice.Principal]string{sluice.Root: "system", sluice.System: "system", sluice.Anonymous: "unknown"} {
		require.Equal(t, want, w.AuthType(sluice.Caller{Principal: p}), p)
	}
	require.Equal(t, "unknown", w.AuthType(sluice.Caller{Principal: ann, Grant: "gone"}))
}

// S4-33: who may not have the server's own paths is told which verb they need, not the one that was asked for.
func TestRequire_NamesTheVerbOfReservedPaths(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	hers := w.grant("hers", ann, "scope:acme", "subscribe")
	system := authz.Target{Namespace: "acme", Pattern: "/_sys/**"}
	err := w.Require(caller(hers), sluice.VerbSubscribe, system, w.now)
	require.Equal(t, sluice.CapabilityRequired, sluice.CodeOf(err))
	require.ErrorContains(t, err, "verb admin for path:acme/_sys/**")
	own := authz.Target{Namespace: "acme", Pattern: "/a/**"}
	err = w.Require(caller(hers), sluice.VerbPublish, own, w.now)
	require.ErrorContains(t, err, "verb publish for path:acme/a/**")
}
