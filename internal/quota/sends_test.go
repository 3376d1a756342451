package quota_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/quota"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Issue 13, attack 9: a subscription and a principal have so many sends a minute, and what was refused is not paid for.
func TestSends_BoundSubscriptionAndPrincipal(t *testing.T) {
	t.Parallel()
	s, now := quota.NewSends(2, 3), noon()
	require.NoError(t, s.Pay("a", "user:eve", now))
	require.NoError(t, s.Pay("a", "user:eve", now))
	for range 5 {
		require.Equal(t, sluice.QuotaExceeded, sluice.CodeOf(s.Pay("a", "user:eve", now)))
	}
	require.NoError(t, s.Pay("b", "user:eve", now))
	refused := s.Pay("c", "user:eve", now)
	require.Equal(t, sluice.QuotaExceeded, sluice.CodeOf(refused), "that was the principal's last")
	require.NoError(t, s.Pay("c", "user:ann", now))
	require.Error(t, s.Pay("b", "user:eve", now.Add(19*time.Second)))
	require.NoError(t, s.Pay("b", "user:eve", now.Add(21*time.Second)), "three a minute")
	free := quota.NewSends(0, 0)
	for range 1000 {
		require.NoError(t, free.Pay("a", "user:eve", now))
	}
}

// Issue 13, attack 9: a handshake is of no stored subscription, so it counts for its principal alone.
func TestSends_HandshakesCountForThePrincipal(t *testing.T) {
	t.Parallel()
	s, now := quota.NewSends(1, 3), noon()
	for range 3 {
		require.NoError(t, s.Pay("", "user:eve", now))
	}
	require.Equal(t, sluice.QuotaExceeded, sluice.CodeOf(s.Pay("", "user:eve", now)))
	require.NoError(t, s.Pay("", "user:ann", now))
}
