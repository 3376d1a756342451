package deliverystore

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

// A wait is for the attempts of before: a busy subscription would never be without one.
func TestUnrecorded_LaterAttemptsProlongNoWait(t *testing.T) {
	t.Parallel()
	u := unrecorded{of: map[string]*backlog{}}
	require.Nil(t, u.emptied("s"))
	u.enter("s")
	u.enter("s")
	first := u.emptied("s")
	u.enter("s")
	second := u.emptied("s")
	u.enter("other")
	require.Equal(t, map[string]bool{"s": true, "other": true}, u.subjects())
	u.leave("s")
	require.False(t, ended(first))
	u.leave("s")
	require.True(t, ended(first))
	require.False(t, ended(second))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, u.wait(ctx, "s"), context.Canceled)
	u.leave("s")
	require.True(t, ended(second))
	require.NoError(t, u.wait(ctx, "s"))
	require.Equal(t, map[string]bool{"other": true}, u.subjects())
}

func ended(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
