package retry_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/retry"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// The bounds themselves are allowed, and one beyond is not.
func TestCheck_TakesItsBounds(t *testing.T) { // S4-16
	t.Parallel()
	custom := func(step time.Duration, n, attempts int, jitter float64) sluice.Retry {
		return sluice.Retry{Preset: sluice.PresetCustom, Steps: slices.Repeat([]sluice.Duration{sluice.Duration(step)}, n), MaxAttempts: attempts, Jitter: jitter}
	}
	for _, r := range []sluice.Retry{
		custom(retry.MinStep, 1, 0, 0), custom(retry.MaxStep, 1, 0, 0), custom(time.Second, retry.MaxAttempts-1, 0, 0),
		custom(time.Second, 1, retry.MaxAttempts, 0), custom(time.Second, 1, 1, 0), custom(time.Second, 1, 0, 1),
	} {
		require.NoError(t, retry.Check(r))
	}
	for _, r := range []sluice.Retry{
		custom(retry.MinStep-1, 1, 0, 0), custom(retry.MaxStep+1, 1, 0, 0), custom(time.Second, 1, retry.MaxAttempts+1, 0),
	} {
		require.Error(t, retry.Check(r))
	}
	require.ErrorContains(t, retry.Check(custom(retry.MinStep, retry.MaxAttempts, 0, 0)), "use at most 99")
}

// What cannot come of Check is not followed, and does not end the process.
func TestNext_WithoutSteps(t *testing.T) {
	t.Parallel()
	_, ok := retry.Next(sluice.Retry{Preset: sluice.PresetCustom, MaxAttempts: 5}, 1, time.Time{}, time.Now(), 0.5)
	require.False(t, ok)
	require.Zero(t, retry.Cap(sluice.Retry{Preset: sluice.PresetCustom}))
	now := time.Now()
	first, ok := retry.Next(sluice.Retry{Preset: sluice.PresetShort}, 1, time.Time{}, now, 0.5)
	require.True(t, ok)
	none, ok := retry.Next(sluice.Retry{Preset: sluice.PresetShort}, 0, time.Time{}, now, 0.5)
	require.Equal(t, []any{true, first}, []any{ok, none}, "no attempt counts as the first")
}
