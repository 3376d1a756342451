package supervise_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/supervise"
)

// owner calls ended when its context ends.
type owner struct{ ended func() }

func (o owner) Run(ctx context.Context, changed func() <-chan struct{}) error {
	<-changed()
	<-ctx.Done()
	o.ended()
	return nil
}

func settled(context.Context) <-chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}

func TestRun_OwnsUntilNothingIsInFlight(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	var order []string
	require.NoError(t, supervise.Run(ctx, owner{func() { order = append(order, "owned") }}, supervise.Engine{
		Changed: settled,
		Serve: func(ctx context.Context) {
			cancel()
			<-ctx.Done()
			order = append(order, "served")
		},
	}))
	require.Equal(t, []string{"served", "owned"}, order)
}

func TestRun_EndsWithAWatch(t *testing.T) {
	t.Parallel()
	lost := errors.New("lost")
	require.ErrorIs(t, supervise.Run(t.Context(), owner{func() {}}, supervise.Engine{
		Watches: []func(context.Context) error{func(context.Context) error { return lost }},
		Changed: settled,
		Serve:   func(ctx context.Context) { <-ctx.Done() },
	}), lost)
}

func TestPause_DoublesUntilReset(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := supervise.Pause{First: time.Second, Most: 3 * time.Second}
		begun := time.Now()
		var at []time.Duration
		for i := range 5 {
			if i == 4 {
				p.Reset()
			}
			require.True(t, p.Wait(t.Context()))
			at = append(at, time.Since(begun))
		}
		require.Equal(t, []time.Duration{time.Second, 3 * time.Second, 6 * time.Second, 9 * time.Second, 10 * time.Second}, at)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.False(t, p.Wait(ctx))
	})
}
