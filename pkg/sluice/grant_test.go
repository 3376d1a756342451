package sluice_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

func TestObject_IsReadAsWritten(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]sluice.Object{
		"*": {}, "scope:acme": {Namespace: "acme"}, "path:acme/a/*": {Namespace: "acme", Pattern: "/a/*"}, "path:acme/a/../b": {Namespace: "acme", Pattern: "/a/../b"},
	} {
		got, err := sluice.ParseObject(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got)
		require.Equal(t, text, got.String())
		data, err := json.Marshal(got)
		require.NoError(t, err)
		require.JSONEq(t, `"`+text+`"`, string(data))
		var back sluice.Object
		require.NoError(t, json.Unmarshal(data, &back))
		require.Equal(t, want, back)
	}
	for _, text := range []string{"", "acme", "scope:", "scope:A", "scope", "path:acme/a*", "path:acme", "path:/a", "path:A/a", "table:acme", "**"} {
		_, err := sluice.ParseObject(text)
		require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(err), text)
	}
}

func TestObject_HasCoversAndTouches(t *testing.T) {
	t.Parallel()
	all, acme, other := sluice.Object{}, sluice.Object{Namespace: "acme"}, sluice.Object{Namespace: "other"}
	orders := sluice.Object{Namespace: "acme", Pattern: "/orders/**"}
	eu := sluice.Object{Namespace: "acme", Pattern: "/orders/eu/*"}
	lamps := sluice.Object{Namespace: "acme", Pattern: "/lamps/**"}
	for _, c := range []struct {
		o, p            sluice.Object
		covers, touches bool
	}{
		{all, all, true, true},
		{all, orders, true, true},
		{acme, all, false, true},
		{acme, orders, true, true},
		{acme, acme, true, true},
		{acme, other, false, false},
		{orders, all, false, true},
		{orders, acme, false, true},
		{orders, eu, true, true},
		{eu, orders, false, true},
		{orders, lamps, false, false},
		{sluice.Object{Namespace: "other", Pattern: "/orders/**"}, eu, false, false},
	} {
		require.Equal(t, c.covers, c.o.Covers(c.p), "%s covers %s", c.o, c.p)
		require.Equal(t, c.touches, c.o.Touches(c.p), "%s touches %s", c.o, c.p)
	}
	for _, o := range []sluice.Object{all, acme, orders} {
		require.True(t, o.Has("acme", "/orders/1"), o.String())
	}
	for _, o := range []sluice.Object{other, lamps, {Namespace: "other", Pattern: "/orders/**"}} {
		require.False(t, o.Has("acme", "/orders/1"), o.String())
	}
}

func TestGrant_AdminIncludesTheOtherVerbs(t *testing.T) {
	t.Parallel()
	reader, admin := sluice.Grant{Verbs: []sluice.Verb{sluice.VerbRead}}, sluice.Grant{Verbs: []sluice.Verb{sluice.VerbAdmin}}
	for _, v := range sluice.Verbs() {
		require.Equal(t, v == sluice.VerbRead, reader.Allows(v), v)
		require.True(t, admin.Allows(v), v)
	}
}

func TestGrant_IsChecked(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	valid := func() sluice.Grant {
		return sluice.Grant{
			Principal: "user:ann", OnBehalfOf: "service:erp", Verbs: []sluice.Verb{sluice.VerbRead, sluice.VerbPublish},
			Object: sluice.Object{Namespace: "acme", Pattern: "/a/**"}, ExpiresAt: now.Add(sluice.MaxGrantAge), Description: strings.Repeat("x", 1024),
		}
	}
	g := valid()
	require.NoError(t, g.Check(now), "all at its limit")
	g.OnBehalfOf = ""
	require.NoError(t, g.Check(now))
	for name, c := range map[string]struct {
		change func(*sluice.Grant)
		says   string
	}{
		"no principal":            {func(g *sluice.Grant) { g.Principal = "" }, "principal"},
		"root":                    {func(g *sluice.Grant) { g.Principal = sluice.Root }, "principal"},
		"on behalf of a stranger": {func(g *sluice.Grant) { g.OnBehalfOf = "ann" }, "principal"},
		"no verbs":                {func(g *sluice.Grant) { g.Verbs = nil }, "verbs is missing: use some of read publish subscribe mirror admin"},
		"another verb":            {func(g *sluice.Grant) { g.Verbs = []sluice.Verb{"eat"} }, `verb "eat"`},
		"a verb twice":            {func(g *sluice.Grant) { g.Verbs = []sluice.Verb{"read", "read"} }, `verb "read"`},
		"dots":                    {func(g *sluice.Grant) { g.Object.Pattern = "/a/../b" }, "segment . or .."},
		"no end":                  {func(g *sluice.Grant) { g.ExpiresAt = time.Time{} }, "expires_at is missing: a grant lasts at most 90 days"},
		"ends now":                {func(g *sluice.Grant) { g.ExpiresAt = now }, "not in the future"},
		"too long":                {func(g *sluice.Grant) { g.ExpiresAt = g.ExpiresAt.Add(1) }, "more than 90 days"},
		"a long description":      {func(g *sluice.Grant) { g.Description += "x" }, "1024 bytes"},
	} {
		g := valid()
		c.change(&g)
		err := g.Check(now)
		require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(err), name)
		require.ErrorContains(t, err, c.says, name)
	}
}

func TestTier_IsReadAsWritten(t *testing.T) {
	t.Parallel()
	for i, name := range []string{"existence", "read", "write", "admin"} {
		var tier sluice.Tier
		require.NoError(t, tier.UnmarshalText([]byte(name)))
		require.Equal(t, sluice.Tier(i+1), tier)
		require.Equal(t, name, tier.String())
		text, err := tier.MarshalText()
		require.NoError(t, err)
		require.Equal(t, name, string(text))
	}
	for _, name := range []string{"", "none", "Read"} {
		var tier sluice.Tier
		require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(tier.UnmarshalText([]byte(name))), name)
		require.Equal(t, sluice.TierNone, tier)
	}
	require.Equal(t, "none", sluice.TierNone.String())
	require.Equal(t, "admin", sluice.Tier(9).String())
	for verb, want := range map[sluice.Verb]sluice.Tier{
		"read": sluice.TierRead, "subscribe": sluice.TierRead, "mirror": sluice.TierRead, "publish": sluice.TierWrite, "admin": sluice.TierAdmin, "other": sluice.TierAdmin,
	} {
		require.Equal(t, want, verb.Tier(), verb)
	}
	require.True(t, sluice.Access{Pattern: "/**"}.Everything())
	require.False(t, sluice.Access{Pattern: "/a/**"}.Everything())
}
