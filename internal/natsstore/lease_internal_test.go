package natsstore

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

func TestLease_ReplicasShareTheShards(t *testing.T) {
	t.Parallel()
	const rounds = 500
	alone := 0
	for range rounds {
		replicas := []string{uuid.NewString(), uuid.NewString()}
		share := map[string]int{}
		for shard := range shards {
			share[preferred(shard, replicas)]++
		}
		if len(share) == 1 {
			alone++
		}
	}
	require.LessOrEqual(t, alone, rounds/100, "how often one of two has all the work")
}

// F-clock: a machine that was suspended has no lease any more when it wakes, though its monotonic clock stood still,
// and a clock on the wall that is set back makes no lease longer.
func TestLease_EndsByBothClocks(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		monotonic, wall time.Duration // that are left
		want            bool
	}{
		"both say that it holds":       {time.Second, time.Second, true},
		"its end":                      {0, 0, false},
		"both say that it is over":     {-1, -1, false},
		"suspended for a minute":       {13 * time.Second, -47 * time.Second, false},
		"suspended until its end":      {13 * time.Second, 0, false},
		"suspended for a moment":       {13 * time.Second, 12 * time.Second, true},
		"the wall is set back an hour": {-time.Second, time.Hour, false},
	} {
		require.Equal(t, c.want, holds(c.monotonic, c.wall), name)
	}
	now := time.Now()
	monotonic, wall := remaining(now, now.Add(time.Second))
	require.Equal(t, []time.Duration{time.Second, time.Second}, []time.Duration{monotonic, wall})
	_, wall = remaining(now.Round(0).Add(time.Minute), now.Add(time.Second))
	require.Equal(t, -59*time.Second, wall)
}
