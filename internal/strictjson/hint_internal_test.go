package strictjson

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNeighbour_PrefersFieldsOfTheSameObject(t *testing.T) {
	t.Parallel()
	known := []string{"steps", "policy", "policy.retry", "policy.retry.steps", "policy.retry.preset"}
	for unknown, want := range map[string]string{
		"policy.retry.stepz": "policy.retry.steps",
		"stepz":              "steps",
		"policy.pressett":    "policy.retry.preset",
		"policy.retry.other": "",
	} {
		require.Equal(t, want, Neighbour(unknown, known), unknown)
	}
}
