package natstest

import (
	"path/filepath"
	"testing"

	"github.com/gofrs/flock"
	"github.com/stretchr/testify/require"
)

func TestTurn_ExcludesOtherTests(t *testing.T) { //nolint:tparallel // the other waits for the end of its subtest
	t.Parallel()
	other := flock.New(filepath.Join(t.TempDir(), "lock"))
	t.Run("holder", func(t *testing.T) {
		turn(t, other.Path())
		held, err := other.TryLock()
		require.NoError(t, err)
		require.False(t, held)
	})
	held, err := other.TryLock()
	require.NoError(t, err)
	require.True(t, held)
	require.NoError(t, other.Unlock())
}
