package sluice_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

func TestStorageLevel_NamesRefusedOperations(t *testing.T) {
	t.Parallel()
	for level, name := range map[sluice.StorageLevel]string{
		sluice.StorageAmple: "ample", sluice.StorageTight: "tight", sluice.StorageScarce: "scarce", sluice.StorageBroken: "broken",
	} {
		text, err := level.MarshalText()
		require.NoError(t, err)
		require.Equal(t, name, string(text))
		back := sluice.StorageTight
		require.NoError(t, back.UnmarshalText(text))
		require.Equal(t, level, back)
	}
	level := sluice.StorageScarce
	require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(level.UnmarshalText([]byte("full"))))
	require.Equal(t, sluice.StorageScarce, level)

	require.Nil(t, sluice.StorageAmple.Problem())
	for level, says := range map[sluice.StorageLevel]string{
		sluice.StorageTight: "refuses events", sluice.StorageScarce: "refuses all additions", sluice.StorageBroken: "rejects all writes",
	} {
		problem := level.Problem()
		require.ErrorContains(t, problem, says)
		require.Equal(t, sluice.Unavailable, problem.Code)
		require.Equal(t, map[string]any{"reason": "insufficient_storage", "retry_after": 30}, problem.Details)
	}
}

func TestDamage_IsTheSameWheneverFound(t *testing.T) {
	t.Parallel()
	lost := sluice.Damage{Kind: sluice.DamageShorter, Stream: "LOG", From: 5, To: 9, FoundAt: time.Unix(1, 0)}
	record := sluice.Damage{Kind: sluice.DamageUnreadable, Stream: "KV", Key: "k", From: 3, To: 3}
	messages := sluice.Damage{Kind: sluice.DamageUnreadable, Stream: "LOG", From: 3, To: 3}
	change := func(d sluice.Damage, f func(*sluice.Damage)) sluice.Damage { f(&d); return d }
	for _, c := range []struct {
		a, b sluice.Damage
		want bool
	}{
		{lost, change(lost, func(d *sluice.Damage) { d.FoundAt = time.Unix(2, 0) }), true},
		{lost, change(lost, func(d *sluice.Damage) { d.To++ }), false},
		{lost, change(lost, func(d *sluice.Damage) { d.Kind = sluice.DamageFewer }), false},
		{change(lost, func(d *sluice.Damage) { d.Key = "k" }), change(lost, func(d *sluice.Damage) { d.Key, d.To = "k", 10 }), false},
		{record, change(record, func(d *sluice.Damage) { d.From, d.To = 0, 0 }), true},
		{record, change(record, func(d *sluice.Damage) { d.Key = "l" }), false},
		{record, change(record, func(d *sluice.Damage) { d.Stream = "KV2" }), false},
		{record, change(record, func(d *sluice.Damage) { d.Kind = sluice.DamageLost }), false},
		{messages, change(messages, func(d *sluice.Damage) { d.To++ }), false},
	} {
		require.Equal(t, c.want, c.a.Same(c.b), "%s / %s", c.a, c.b)
	}
	for d, want := range map[sluice.Damage]string{
		lost:     "LOG: sequences 5 to 9 are lost",
		record:   "KV: the record of k cannot be read",
		messages: "LOG: messages 3 to 3 cannot be read",
		{Kind: sluice.DamageFewer, Stream: "LOG", Messages: 2, From: 1, To: 9}: "LOG: 2 messages between 1 and 9 are lost",
		{Kind: sluice.DamageMissing, Stream: "LOG", To: 9}:                     "LOG was deleted, or its files were: its content up to sequence 9 is lost",
		{Kind: sluice.DamageStale, Stream: "KV", Key: "k"}:                     "KV: the last change of k is lost",
		{Kind: sluice.DamageLost, Stream: "KV", Key: "k"}:                      "KV: the record of k is lost",
	} {
		require.Equal(t, want, d.String())
	}
}
