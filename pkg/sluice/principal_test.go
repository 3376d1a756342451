package sluice_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

func TestPrincipal_IsAKindAndAName(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]sluice.PrincipalKind{
		"user:ann": "user", "ai_agent:AZaz09_-.@+": "ai_agent", "service:erp": "service", "system:sync": "system", "user:" + strings.Repeat("x", 123): "user",
	} {
		p, err := sluice.ParsePrincipal(text)
		require.NoError(t, err, text)
		require.Equal(t, sluice.Principal(text), p)
		require.Equal(t, want, p.Kind())
	}
	require.Equal(t, sluice.SystemPrincipal, sluice.Root.Kind())
	for _, text := range []string{
		"", "ann", "user", "user:", "User:ann", "root", "system", "anonymous:anybody", "user:a b", "user:a/b", "user:a:b", "user:ä", "user:a*", "user:" + strings.Repeat("x", 124),
	} {
		_, err := sluice.ParsePrincipal(text)
		require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(err), text)
	}
	for r := range rune(0x80) { // the neighbours of what is allowed too
		_, err := sluice.ParsePrincipal("user:" + string(r))
		letter := strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.@+", r)
		require.Equal(t, letter, err == nil, "%q", r)
	}
}

// What is not taken is not repeated at any length.
func TestPrincipal_IsShownClipped(t *testing.T) {
	t.Parallel()
	_, err := sluice.ParsePrincipal(strings.Repeat("x", 128))
	require.ErrorContains(t, err, `"`+strings.Repeat("x", 128)+`"`)
	_, err = sluice.ParsePrincipal(strings.Repeat("x", 129))
	require.ErrorContains(t, err, `"`+strings.Repeat("x", 128)+`…"`)
}

func TestCaller_IsBoundedByAGrant(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		caller             sluice.Caller
		unbounded, unknown bool
	}{
		{sluice.Caller{}, false, false},
		{sluice.Caller{Principal: sluice.Root}, true, false},
		{sluice.Caller{Principal: sluice.System}, true, false},
		{sluice.Caller{Principal: sluice.Root, Grant: "g"}, false, false},
		{sluice.Caller{Principal: "user:ann"}, false, false},
		{sluice.Caller{Principal: sluice.Anonymous}, false, true},
		{sluice.Caller{Principal: sluice.Anonymous, Grant: "g"}, false, false},
	} {
		require.Equal(t, c.unbounded, c.caller.Unbounded(), c.caller)
		require.Equal(t, c.unknown, c.caller.Unknown(), c.caller)
		require.Equal(t, c.caller, model.CallerFrom(model.WithCaller(t.Context(), c.caller)))
	}
	require.Zero(t, model.CallerFrom(t.Context()))
}
