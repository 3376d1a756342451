package subscription_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/subscription"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// What a replay names is bounded: its record has it, and every event of the range is compared with it.
func TestReplay_BoundsItsSelection(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	sub := b.create(t, minimal)
	many := func(n int, text string) []string { return slices.Repeat([]string{text}, n) }
	for field, reqs := range map[string][]subscription.ReplayRequest{
		"event_ids": {{EventIDs: many(1001, "e")}, {EventIDs: []string{strings.Repeat("e", 257)}}, {EventIDs: []string{""}}},
		"types":     {{Types: many(65, "t")}, {Types: []string{strings.Repeat("t", 1025)}}, {Types: []string{"a*b"}}},
	} {
		for i, req := range reqs {
			_, err := b.Replay(t.Context(), sub.ID, req, "root")
			requireCode(t, sluice.InvalidRequest, err)
			require.ErrorContains(t, err, field, i)
		}
	}
	_, err := b.Replay(t.Context(), sub.ID, subscription.ReplayRequest{EventIDs: many(1000, strings.Repeat("e", 256)), Types: many(64, "a.*")}, "root")
	require.NoError(t, err)
}

// Acts on held lanes are not replays that take long: any number may be under way, each of them once.
func TestAct_DoesNotCountAsAReplay(t *testing.T) { // issue 3, item 1
	t.Parallel()
	b := newBench(t)
	sub := b.create(t, minimal)
	act := func(kind sluice.ReplayKind, seq uint64) sluice.Replay {
		rep, err := b.Start(t.Context(), sub, sluice.Replay{Kind: kind, From: seq, To: seq, CreatedBy: "root"})
		require.NoError(t, err)
		return rep
	}
	for seq := uint64(1); seq <= 10; seq++ {
		act(sluice.ReplayRetry, seq)
	}
	first := act(sluice.ReplayDiscard, 1)
	require.Equal(t, first.ID, act(sluice.ReplayDiscard, 1).ID, "it is not done yet")
	all, err := b.Replays(t.Context(), sub.ID)
	require.NoError(t, err)
	require.Len(t, all, 11)
	for range 8 {
		act(sluice.ReplayRange, 1)
	}
	_, err = b.Start(t.Context(), sub, sluice.Replay{Kind: sluice.ReplayRange, From: 1, To: 1})
	requireCode(t, sluice.QuotaExceeded, err)
	act(sluice.ReplayRetry, 11)

	require.NoError(t, b.needs.Replays.Progress(t.Context(), first, func(rep *sluice.Replay) { rep.State = sluice.ReplayDone }))
	require.NotEqual(t, first.ID, act(sluice.ReplayDiscard, 1).ID, "that one is done")
}
