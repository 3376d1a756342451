package timerqueue

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Nothing is left of what was called or removed, also if it was put off.
func TestTimers_ForgetFinishedKeys(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		calls := map[string]int{}
		all := New(func(_ context.Context, key string) Again {
			if calls[key]++; calls[key] == 1 {
				return Again{At: time.Now().Add(time.Second)}
			}
			return Again{}
		})
		all.Set(Entry{Key: "a", Lane: "l", Group: "g", At: time.Now()})
		all.Set(Entry{Key: "removed", Lane: "m", Group: "h", At: time.Now(), Next: time.Now().Add(time.Hour)})
		all.Remove("removed")
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- all.Run(ctx) }()
		<-time.After(time.Minute)
		cancel()
		require.NoError(t, <-ended)
		require.Equal(t, map[string]int{"a": 2}, calls)
		require.Empty(t, all.byKey)
		require.Empty(t, all.counts)
		for _, s := range all.shards {
			require.Empty(t, s.late)
		}
	})
}
