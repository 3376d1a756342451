package eventlog

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A retry has RequestTimeout to arrive within the window, or half of a short one.
func TestRetry_BeginsWellWithinTheWindow(t *testing.T) {
	t.Parallel()
	for window, want := range map[time.Duration]time.Duration{
		time.Second: time.Second / 2, 10 * time.Second: 5 * time.Second, 12 * time.Second: 7 * time.Second, time.Hour: time.Hour - 5*time.Second,
	} {
		require.Equal(t, want, retryWithin(window), window)
	}
}
