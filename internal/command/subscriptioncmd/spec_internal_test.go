package subscriptioncmd

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

func TestRetry_IsAPresetOrWaits(t *testing.T) {
	t.Parallel()
	got, err := parseRetry("short")
	require.NoError(t, err)
	require.Equal(t, sluice.Retry{Preset: sluice.PresetShort}, got)
	got, err = parseRetry("1s, 5m")
	require.NoError(t, err)
	require.Equal(t, sluice.Retry{
		Preset: sluice.PresetCustom, MaxAttempts: 3,
		Steps: []sluice.Duration{sluice.Duration(time.Second), sluice.Duration(5 * time.Minute)},
	}, got)
}
