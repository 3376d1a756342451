package records

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A change waits for this replica, but not for long.
func TestApplied_WaitsForTheRevision(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := NewApplied()
		began := time.Now()
		waited := func() time.Duration { return time.Since(began) }
		a.enter(7)
		a.Wait(t.Context(), 7)
		require.Zero(t, waited())
		time.AfterFunc(10*time.Millisecond, func() { a.enter(8) })
		time.AfterFunc(20*time.Millisecond, func() { a.enter(10) })
		a.Wait(t.Context(), 9)
		require.Equal(t, 20*time.Millisecond, waited())
		a.Wait(t.Context(), 11)
		require.Equal(t, 20*time.Millisecond+appliedLimit, waited())
		ended, end := context.WithCancel(t.Context())
		end()
		a.Wait(ended, 11)
		require.Equal(t, 20*time.Millisecond+appliedLimit, waited())
	})
}
