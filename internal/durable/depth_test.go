package durable_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/durable"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// However often a stream was forked from a fork: when all of them are deleted, the last one last, they all end, in one step.
func TestFork_LongChainEndsWithTheLast(t *testing.T) {
	t.Parallel()
	u := newSpace(t, 0).user()
	at := func(n int) durable.Key {
		return durable.Key{Namespace: u.space.name, Path: sluice.Path(fmt.Sprintf("/fork/%d", n))}
	}
	_, _, err := u.engine.Create(t.Context(), at(0), durable.Create{ContentType: plain, Body: []byte("x")})
	require.NoError(t, err)
	last := 0
	for n := 1; n <= 1001; n++ {
		_, _, err := u.engine.Create(t.Context(), at(n), durable.Create{ContentType: plain, Fork: &durable.ForkWish{From: at(n - 1).Path}})
		if err != nil {
			require.Equal(t, sluice.Conflict, sluice.CodeOf(err), err)
			break
		}
		last = n
	}
	require.Greater(t, last, 100)
	for n := range last + 1 {
		require.NoError(t, u.engine.Delete(t.Context(), at(n)), n)
	}
	for n := range last + 1 {
		_, err := u.engine.Head(t.Context(), at(n))
		require.Equal(t, sluice.NotFound, sluice.CodeOf(err), n)
	}
}
