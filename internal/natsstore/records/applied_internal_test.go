package records

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A change waits for all engines of this replica, but not for long.
func TestAwaitApplied_WaitsForTheRevision(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, b := NewApplied(), NewApplied()
		wait := AwaitApplied(a, b)
		b.enter(11)
		began := time.Now()
		waited := func() time.Duration { return time.Since(began) }
		a.enter(7)
		wait(t.Context(), 7)
		require.Zero(t, waited())
		time.AfterFunc(10*time.Millisecond, func() { a.enter(8) })
		time.AfterFunc(20*time.Millisecond, func() { a.enter(10) })
		wait(t.Context(), 9)
		require.Equal(t, 20*time.Millisecond, waited())
		wait(t.Context(), 11)
		require.Equal(t, 20*time.Millisecond+appliedLimit, waited())
		ended, end := context.WithCancel(t.Context())
		end()
		wait(ended, 11)
		require.Equal(t, 20*time.Millisecond+appliedLimit, waited())
	})
}
