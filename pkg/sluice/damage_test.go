package sluice_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Damage may be found twice within a range: readers are told of it once.
func TestRanges_DoNotOverlap(t *testing.T) {
	t.Parallel()
	require.Nil(t, sluice.Ranges(nil))
	require.Equal(t, []sluice.Gap{{From: 1, To: 9}, {From: 10, To: 12}}, sluice.Ranges([]sluice.Gap{
		{From: 1, To: 9, Path: "/a", Events: 2}, {From: 2, To: 3}, {From: 9, To: 9}, {From: 10, To: 11}, {From: 10, To: 12},
	}))
}
