package keylock

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLock_OneHolderPerKey(t *testing.T) {
	t.Parallel()
	var all Turns[string]
	const key = "/a"
	var waiting sync.WaitGroup
	count := 0 // the race detector sees who does not wait
	for range 50 {
		waiting.Go(func() {
			done, err := all.Take(context.WithoutCancel(t.Context()), key)
			if err != nil {
				t.Error(err)
				return
			}
			defer done()
			count++
		})
	}
	waiting.Wait()
	require.Equal(t, 50, count)
	require.Empty(t, all.byKey)

	done, err := all.Take(t.Context(), key)
	require.NoError(t, err)
	other, err := all.Take(t.Context(), "/b")
	require.NoError(t, err, "another stream's record is another's turn")
	other()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = all.Take(ended, key)
	require.ErrorIs(t, err, context.Canceled)
	done()
	require.Empty(t, all.byKey)
}
