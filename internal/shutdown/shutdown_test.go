package shutdown_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/shutdown"
)

// F10: what outlives its context ends with the deadline, four fifths of the grace after the shutdown began; the rest of it is
// for closing.
func TestDeadline_EndsLongSteps(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := shutdown.New(t.Context(), 5*time.Second)
		defer d.Close()
		ctx, cancel := context.WithCancel(d.Context(t.Context()))
		lasting := shutdown.Lasting(ctx)
		inner, stop := context.WithTimeout(shutdown.Lasting(lasting), time.Hour)
		defer stop()
		cancel()
		<-time.After(time.Minute)
		synctest.Wait()
		require.NoError(t, inner.Err(), "the shutdown has not begun")
		began := time.Now()
		d.Begin()
		<-inner.Done()
		require.Equal(t, 4*time.Second, time.Since(began))
		require.ErrorIs(t, context.Cause(lasting), shutdown.ErrOver)
		require.NoError(t, d.Closing().Err())
		<-d.Closing().Done()
		require.Equal(t, 5*time.Second, time.Since(began))
	})
}

// An attempt under way has a timeout of its own; the deadline begins anew when the last one has ended.
func TestDeadline_WaitsForAttempts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := shutdown.New(t.Context(), 5*time.Second)
		defer d.Close()
		ctx := d.Context(t.Context())
		lasting := shutdown.Lasting(ctx)
		first, second := shutdown.Sending(ctx), shutdown.Sending(lasting)
		began := time.Now()
		d.Begin()
		<-time.After(20 * time.Second)
		first()
		first()
		<-time.After(20 * time.Second)
		synctest.Wait()
		require.NoError(t, lasting.Err(), "one is under way")
		second()
		<-time.After(time.Second)
		third := shutdown.Sending(ctx)
		<-time.After(10 * time.Second)
		synctest.Wait()
		require.NoError(t, lasting.Err(), "one has begun since")
		third()
		<-lasting.Done()
		require.Equal(t, 55*time.Second, time.Since(began))
	})
}

// A step that does not end is left at the deadline, and named; before a shutdown nothing is noted.
func TestDeadline_NamesUnfinishedSteps(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := shutdown.New(t.Context(), 5*time.Second)
		defer d.Close()
		ctx := d.Context(t.Context())
		require.False(t, shutdown.Left(ctx, "attempts", 1))
		require.False(t, shutdown.Left(t.Context(), "attempts", 1))
		d.Begin()
		require.True(t, shutdown.Left(shutdown.Lasting(ctx), "attempts", 2))
		require.True(t, shutdown.Left(ctx, "attempts", 1))
		end := make(chan struct{})
		require.NoError(t, d.Do("connections", func() error { return nil }))
		require.ErrorIs(t, d.Do("connections", func() error { return context.DeadlineExceeded }), context.DeadlineExceeded)
		require.NoError(t, d.Do("embedded servers", func() error { <-end; return nil }))
		require.Equal(t, "attempts: 3, embedded servers: 1", d.Left())
		close(end)
	})
}
