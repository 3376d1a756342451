package subscription_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/subscription"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// S0-50: the setting is the window of subscriptions that ask for none, and a change of it makes no conflict.
func TestReplayWindow_DefaultIsASetting(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	withWindow := func(window time.Duration) *subscription.Registry {
		needs := b.needs
		needs.ReplayWindow = sluice.Duration(window)
		return subscription.New(needs)
	}
	body := `{"id":"w","pattern":"/**","endpoint":{"url":"` + url + `"}}`
	req, err := subscription.ParseRequest([]byte(body))
	require.NoError(t, err)

	sub, created, err := withWindow(2*time.Hour).Create(t.Context(), req, "root")
	require.NoError(t, err)
	require.True(t, created)
	require.Equal(t, int64(7200), sub.ReplayWindowS)

	sub, created, err = withWindow(3*time.Hour).Create(t.Context(), req, "root")
	require.NoError(t, err)
	require.False(t, created)
	require.Equal(t, int64(7200), sub.ReplayWindowS, "as it was made")

	req.ReplayWindow = sluice.Duration(time.Hour)
	_, _, err = withWindow(2*time.Hour).Create(t.Context(), req, "root")
	require.Equal(t, sluice.SubscriptionDiffers, sluice.CodeOf(err))
}
