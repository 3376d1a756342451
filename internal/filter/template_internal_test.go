package filter

import (
	"testing"

	"cel.dev/cel-go/common/types"
	"github.com/stretchr/testify/require"
)

// A small expression can yield a large body: its encoding ends at the limit.
func TestEncoder_EndsAtTheLimit(t *testing.T) {
	t.Parallel()
	many := types.NewStringList(types.DefaultTypeAdapter, make([]string, 1000))
	_, err := (&encoder{limit: 10}).append(nil, many, 0)
	require.ErrorIs(t, err, errLarge)
	b, err := (&encoder{limit: 10_000}).append(nil, many, 0)
	require.NoError(t, err)
	require.Len(t, b, 3001)
}
