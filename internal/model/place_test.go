package model_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// An id of a place is of its own namespace only, and no publisher there may choose it.
func TestPlaceID_IsTheServersInItsNamespace(t *testing.T) {
	t.Parallel()
	for _, seq := range []uint64{1, 17, math.MaxUint64} {
		id := model.PlaceID("acme-2", seq)
		was, ok := model.PlaceOf("acme-2", id)
		require.True(t, ok)
		require.Equal(t, seq, was)
		require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(model.CheckChosenID("acme-2", id)))
		for _, other := range []string{"acme", "acme-", "cme-2", "acme-22", ""} {
			require.NoError(t, model.CheckChosenID(other, id), other)
		}
	}
	for _, id := range []string{"", "_", "_acme", "_acme-", "acme-1", "__acme-1", "_acme-1x", "_acme-+1", "_acme--1", "_acme-1-1", "_acme-99999999999999999999"} {
		_, ok := model.PlaceOf("acme", id)
		require.False(t, ok, id)
		require.NoError(t, model.CheckChosenID("acme", id), id)
	}
	require.Error(t, model.CheckChosenID("acme", "_acme-01"), "another spelling")
}
