package integrity

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Issue 13, F5: the gaps of a log are its damage, in order; of a deleted log and of buckets there are none.
func TestGaps_AreTheDamageOfALog(t *testing.T) {
	t.Parallel()
	m := &Memory{}
	require.Empty(t, m.Gaps("ns"))
	m.damage = []sluice.Damage{
		{Kind: sluice.DamageShorter, Namespace: "ns", From: 20, To: 30},
		{Kind: sluice.DamageUnreadable, Namespace: "ns", From: 7, To: 7, Path: "/a"},
		{Kind: sluice.DamageFewer, Namespace: "ns", To: 19, Messages: 3},
		{Kind: sluice.DamageMissing, Namespace: "ns", From: 1, To: 30},
		{Kind: sluice.DamageUnreadable, Stream: "KV_access", Key: "k", From: 1, To: 1},
	}
	m.publishGaps()
	require.Equal(t, []sluice.Gap{{From: 1, To: 19, Events: 3}, {From: 7, To: 7, Path: "/a", Events: 1}, {From: 20, To: 30, Events: 11}}, m.Gaps("ns"))
	require.Empty(t, m.Gaps("other"))
	require.Empty(t, m.Gaps(""))
}

func TestGaps_VeryManyAreOne(t *testing.T) {
	t.Parallel()
	m := &Memory{}
	for i := range uint64(gapsMost + 1) {
		m.damage = append(m.damage, sluice.Damage{Kind: sluice.DamageUnreadable, Namespace: "ns", From: 10 * (i + 1), To: 10*(i+1) + 1, Path: "/a"})
	}
	m.publishGaps()
	require.Equal(t, []sluice.Gap{{From: 10, To: 10*(gapsMost+1) + 1, Events: 2 * (gapsMost + 1)}}, m.Gaps("ns"))
	m.damage = m.damage[1:]
	m.publishGaps()
	require.Len(t, m.Gaps("ns"), gapsMost)
}
