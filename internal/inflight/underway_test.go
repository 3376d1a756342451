package inflight_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/inflight"
)

func TestWithdraw_WaitsForTheCutOff(t *testing.T) { // C43
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var set inflight.Set[string]
		var ended atomic.Int32
		for _, who := range []string{"mine", "mine", "other"} {
			ctx, leave := set.Enter(t.Context(), who)
			go func() {
				defer leave()
				<-ctx.Done()
				if inflight.WasCut(ctx) {
					<-time.After(time.Second) // it takes its time
					ended.Add(1)
				}
			}()
		}
		off := set.Cut(func(who string) bool { return who == "mine" })
		require.Len(t, off, 2)
		require.NoError(t, off.Wait(t.Context()))
		synctest.Wait()
		require.EqualValues(t, 2, ended.Load())
		require.NoError(t, set.Cut(func(string) bool { return true }).Wait(t.Context()))
		require.EqualValues(t, 3, ended.Load())
		require.Empty(t, set.Cut(func(string) bool { return true }))
	})
}

func TestWithdraw_TimeoutTellsHowManyAreLeft(t *testing.T) { // C43
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var set inflight.Set[int]
		ctx, leave := set.Enter(t.Context(), 1)
		limit, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		off := set.Cut(func(int) bool { return true })
		err := off.Wait(limit)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "cancelled 1 attempts, of which 1 may still be in flight")
		require.ErrorIs(t, ctx.Err(), context.Canceled)
		leave()
		require.NoError(t, off.Wait(t.Context()))
	})
}

// A request that ends by itself was not cut off, and neither was one that ends with its parent context.
func TestCut_IsOnlyTrueAfterACutOff(t *testing.T) {
	t.Parallel()
	var set inflight.Set[int]
	all, end := context.WithCancel(t.Context())
	left, leave := set.Enter(t.Context(), 1)
	leave()
	require.Error(t, left.Err())
	require.False(t, inflight.WasCut(left))
	ended, leave := set.Enter(all, 2)
	defer leave()
	end()
	require.Error(t, ended.Err())
	require.False(t, inflight.WasCut(ended))
}
