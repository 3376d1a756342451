package httpapi

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Issue 13, attack 9: a subscription and a principal have so many sends a minute, and what was refused is not paid for.
func TestSends_BoundSubscriptionAndPrincipal(t *testing.T) {
	t.Parallel()
	s, now := sends{perSubscription: 2, perPrincipal: 3}, time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	require.NoError(t, s.pay("a", "user:eve", now))
	require.NoError(t, s.pay("a", "user:eve", now))
	for range 5 {
		require.Equal(t, sluice.QuotaExceeded, sluice.CodeOf(s.pay("a", "user:eve", now)))
	}
	require.NoError(t, s.pay("b", "user:eve", now))
	refused := s.pay("c", "user:eve", now)
	require.Equal(t, sluice.QuotaExceeded, sluice.CodeOf(refused), "that was the principal's last")
	require.NoError(t, s.pay("c", "user:ann", now))
	require.Error(t, s.pay("b", "user:eve", now.Add(19*time.Second)))
	require.NoError(t, s.pay("b", "user:eve", now.Add(21*time.Second)), "three a minute")
	free := sends{}
	for range 1000 {
		require.NoError(t, free.pay("a", "user:eve", now))
	}
}
