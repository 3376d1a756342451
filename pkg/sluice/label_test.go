package sluice_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

func TestLevel_IsReadAsWritten(t *testing.T) {
	t.Parallel()
	for i, name := range []string{"PUBLIC", "INTERNAL", "CONFIDENTIAL", "SECRET", "TOP_SECRET"} {
		l, err := sluice.ParseLevel(name)
		require.NoError(t, err)
		require.Equal(t, sluice.Level(i), l)
		text, err := l.MarshalText()
		require.NoError(t, err)
		require.Equal(t, name, string(text))
		var back sluice.Level
		require.NoError(t, back.UnmarshalText(text))
		require.Equal(t, l, back)
	}
	l := sluice.LevelSecret
	require.NoError(t, l.UnmarshalText(nil))
	require.Equal(t, sluice.LevelPublic, l)
	for _, name := range []string{"", "secret", "NONE"} {
		_, err := sluice.ParseLevel(name)
		require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(err), name)
	}
	require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(l.UnmarshalText([]byte("x"))))
	require.Equal(t, "TOP_SECRET", sluice.Level(9).String())
}

func TestLabel_IsSortedAndChecked(t *testing.T) {
	t.Parallel()
	given := []string{"legal", "finance", "legal", strings.Repeat("x", 64)}
	l := sluice.Label{Compartments: given}
	require.NoError(t, l.Check())
	require.Equal(t, []string{"finance", "legal", strings.Repeat("x", 64)}, l.Compartments)
	require.Equal(t, "legal", given[0], "the caller's list is left alone")

	l = sluice.Label{Compartments: many(32)}
	require.NoError(t, l.Check())
	for _, list := range [][]string{many(33), {""}, {"a b"}, {strings.Repeat("x", 65)}} {
		l := sluice.Label{Compartments: list}
		require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(l.Check()), list)
	}
	for _, l := range []sluice.Label{{}, {Compartments: []string{}}} {
		data, err := json.Marshal(l)
		require.NoError(t, err)
		require.JSONEq(t, `{"level":"PUBLIC","compartments":[]}`, string(data))
	}
	data, err := json.Marshal(sluice.Label{Compartments: []string{"a"}})
	require.NoError(t, err)
	require.JSONEq(t, `{"level":"PUBLIC","compartments":["a"]}`, string(data))
}

// S4-67.
func TestLabel_DominatesByLevelAndCompartments(t *testing.T) {
	t.Parallel()
	secret := sluice.Label{Level: sluice.LevelSecret, Compartments: []string{"finance", "legal"}}
	for _, c := range []struct {
		m    sluice.Label
		want bool
	}{
		{sluice.Label{}, true},
		{secret, true},
		{sluice.Label{Level: sluice.LevelSecret, Compartments: []string{"legal"}}, true},
		{sluice.Label{Level: sluice.LevelTopSecret}, false},
		{sluice.Label{Compartments: []string{"medical"}}, false},
		{sluice.Label{Compartments: []string{"finance", "medical"}}, false},
	} {
		require.Equal(t, c.want, secret.Dominates(c.m), c.m)
	}
	require.True(t, sluice.Label{}.Public())
	require.False(t, sluice.Label{Level: sluice.LevelInternal}.Public())
	require.False(t, sluice.Label{Compartments: []string{"a"}}.Public())
}

func TestClassification_IsALabel(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]sluice.Label{
		"SECRET":               {Level: sluice.LevelSecret},
		"SECRET/legal,finance": {Level: sluice.LevelSecret, Compartments: []string{"finance", "legal"}},
	} {
		got, err := sluice.ParseClassification(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got)
	}
	for _, text := range []string{"", "secret", "SECRET/", "SECRET/a,", "/a", "X/a"} {
		_, err := sluice.ParseClassification(text)
		require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(err), text)
	}
}
