package model_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

func TestHistoryQuery_MatchesAllItsFields(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		q    model.HistoryQuery
		path sluice.Path
		want bool
	}{
		{model.HistoryQuery{}, "/a/b", true},
		{model.HistoryQuery{}, "", true},
		{model.HistoryQuery{EventID: "e"}, "/a/b", true},
		{model.HistoryQuery{EventID: "f"}, "/a/b", false},
		{model.HistoryQuery{Seq: 7}, "/a/b", true},
		{model.HistoryQuery{Seq: 8}, "/a/b", false},
		{model.HistoryQuery{After: 6}, "/a/b", true},
		{model.HistoryQuery{After: 7}, "/a/b", false},
		{model.HistoryQuery{Since: at, Until: at}, "/a/b", true},
		{model.HistoryQuery{Since: at.Add(1)}, "/a/b", false},
		{model.HistoryQuery{Until: at.Add(-1)}, "/a/b", false},
		{model.HistoryQuery{Pattern: "/a/*"}, "/a/b", true},
		{model.HistoryQuery{Pattern: "/b/*"}, "/a/b", false},
		{model.HistoryQuery{Pattern: "/a/*"}, "", false},
		{model.HistoryQuery{Pattern: "/**"}, "", true},
		{model.HistoryQuery{Pattern: "/**"}, "/_sys/a", true},
		{model.HistoryQuery{Types: []string{"x", "order.*"}}, "/a/b", true},
		{model.HistoryQuery{Types: []string{"x"}}, "/a/b", false},
	} {
		require.Equal(t, c.want, c.q.Wants("e", 7, c.path, "order.placed", at), "%+v %s", c.q, c.path)
	}
	require.True(t, (&model.WindowQuery{}).HasType("a"))
	require.True(t, (&model.WindowQuery{Types: []string{"a"}}).HasType("a"))
	require.False(t, (&model.WindowQuery{Types: []string{"b"}}).HasType("a"))
}

func TestReplay_SelectsNamedEvents(t *testing.T) {
	t.Parallel()
	ev := &sluice.Event{ID: "e", Type: "order.placed"}
	for _, c := range []struct {
		r    sluice.Replay
		want bool
	}{
		{sluice.Replay{}, true},
		{sluice.Replay{EventIDs: []string{"d", "e"}, Types: []string{"order.*"}}, true},
		{sluice.Replay{EventIDs: []string{"d"}}, false},
		{sluice.Replay{Types: []string{"lamp.*"}}, false},
		{sluice.Replay{EventIDs: []string{"e"}, Types: []string{"lamp.*"}}, false},
	} {
		require.Equal(t, c.want, c.r.Wants(ev), "%+v", c.r)
	}
	for kind, want := range map[sluice.ReplayKind]bool{sluice.ReplayRange: false, sluice.ReplayDeadLetters: false, sluice.ReplayRetry: true, sluice.ReplayDiscard: true} {
		require.Equal(t, want, (&sluice.Replay{Kind: kind}).Acts(), kind)
	}
}

func TestParked_WaitsSinceItsFirstFailure(t *testing.T) {
	t.Parallel()
	failed, held := time.Unix(1, 0), time.Unix(2, 0)
	require.Equal(t, failed, (&sluice.Parked{FirstFailedAt: failed, HeldAt: held}).Since())
	require.Equal(t, held, (&sluice.Parked{HeldAt: held}).Since())
}

func TestVerdict_IsFinalUnlessSomethingComes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		v    sluice.Verdict
		want bool
	}{
		{sluice.Verdict{Settled: true}, true},
		{sluice.Verdict{Dead: sluice.Exhausted}, true},
		{sluice.Verdict{Again: time.Unix(1, 0)}, false},
		{sluice.Verdict{Held: sluice.Exhausted}, false},
	} {
		require.Equal(t, c.want, c.v.Final(), "%+v", c.v)
	}
}

func TestSubscription_SecretsLiveUntilTheyExpire(t *testing.T) {
	t.Parallel()
	now := time.Unix(100, 0)
	s := sluice.Subscription{Lifecycle: sluice.Lifecycle{CreatedAt: time.Unix(1, 0)}, Secrets: []sluice.Secret{{Value: "new"}, {Value: "old", ExpiresAt: now.Add(1)}, {Value: "gone", ExpiresAt: now}}}
	require.Equal(t, []string{"new", "old"}, s.LiveSecrets(now))
	require.Equal(t, time.Unix(1, 0), s.Began())
	moved := time.Unix(2, 0)
	s.SoughtAt = &moved
	require.Equal(t, moved, s.Began())
}

func TestFilter_IsEmptyWithoutAnyDimension(t *testing.T) {
	t.Parallel()
	require.True(t, sluice.Filter{}.Empty())
	one := []string{"x"}
	for _, f := range []sluice.Filter{
		{Types: one},
		{Sources: one},
		{Subjects: one},
		{Labels: map[string][]string{"l": one}},
		{CEL: "true"},
		{Types: one, Sources: one},
		{Sources: one, Subjects: one},
		{Subjects: one, Labels: map[string][]string{"l": one}},
	} {
		require.False(t, f.Empty(), "%+v", f)
	}
}

func TestWakeConsumerID_IsReadAsWritten(t *testing.T) { // S1-12
	t.Parallel()
	id := model.WakeConsumerID("sub", "/a b/c:d")
	require.Equal(t, "sub:%2Fa%20b%2Fc:d", id)
	sub, path, ok := model.ParseWakeConsumerID(id)
	require.Equal(t, []any{"sub", sluice.Path("/a b/c:d"), true}, []any{sub, path, ok})
	for _, id := range []string{"", "sub", "sub:", "sub:a", "sub:%zz", "sub:%2Fa%2F%2A"} {
		_, _, ok := model.ParseWakeConsumerID(id)
		require.False(t, ok, id)
	}
}

func TestKeyUse_SymmetricKeysStayHere(t *testing.T) {
	t.Parallel()
	for use, want := range map[sluice.KeyUse]bool{sluice.UseWebhook: false, sluice.UseGrant: false, sluice.UseStamp: true, sluice.UseWake: true, sluice.UseFeed: true} {
		require.Equal(t, want, use.Symmetric(), use)
	}
}
