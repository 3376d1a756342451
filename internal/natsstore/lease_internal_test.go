package natsstore

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

func TestReplicasHaveTheirShareOfTheShards(t *testing.T) {
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
