package subscription_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// An attempt with earlier settings says nothing about the present ones.
func TestEnd_ComparesTheSubscription(t *testing.T) { // S0-49, C06
	t.Parallel()
	b := newBench(t)
	sub := b.create(t, minimal)
	sub, err := b.Get(t.Context(), sub.ID)
	require.NoError(t, err)
	patched := func(body string) {
		_, err := b.Patch(t.Context(), sub.ID, []byte(body), 0, "root")
		require.NoError(t, err)
	}
	calls := 0
	gone := func(of *sluice.Subscription) bool {
		cancelled, err := b.Cancel(t.Context(), of, func() error { calls++; return nil })
		require.NoError(t, err)
		return cancelled
	}
	unharmed := func() {
		t.Helper()
		now, err := b.Get(t.Context(), sub.ID)
		require.NoError(t, err)
		require.Equal(t, []any{sluice.Active, 0}, []any{now.State, calls})
	}
	for _, change := range []func(*sluice.Subscription){
		func(s *sluice.Subscription) { s.Endpoint.URL = "https://earlier.example" },
		func(s *sluice.Subscription) { s.CreatedAt = s.CreatedAt.Add(-time.Second) },
	} {
		earlier := *sub
		change(&earlier)
		require.False(t, gone(&earlier))
		require.NoError(t, b.DisableFailing(t.Context(), &earlier, "late"))
		unharmed()
	}
	patched(`{"policy":{"on_gone":"retry"}}`)
	require.False(t, gone(sub))
	require.NoError(t, b.SuspendCostly(t.Context(), sub, "late"))
	unharmed()

	patched(`{"policy":{"on_gone":"cancel"}}`)
	failed := errors.New("failed")
	_, err = b.Cancel(t.Context(), sub, func() error { return failed })
	require.ErrorIs(t, err, failed)
	unharmed()
	states := map[sluice.State]func(context.Context, *sluice.Subscription, string) error{sluice.Disabled: b.DisableFailing, sluice.Suspended: b.SuspendCostly}
	for state, stop := range states {
		sub, err = b.Get(t.Context(), sub.ID)
		require.NoError(t, err)
		require.NoError(t, stop(t.Context(), sub, "why"))
		now, err := b.Get(t.Context(), sub.ID)
		require.NoError(t, err)
		require.Equal(t, []string{string(state), "why"}, []string{string(now.State), now.Reason})
		sub, err = b.Resume(t.Context(), sub.ID, "root")
		require.NoError(t, err)
	}
	require.True(t, gone(sub))
	require.Equal(t, 1, calls)
}
