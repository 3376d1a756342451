package records_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/natsstore/records"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/internal/wake"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Issue 13, F4: the last room of a store takes the changes of wake consumers, and no further ones.
func TestWakes_LastRoomIsForThoseThatExist(t *testing.T) {
	t.Parallel()
	store := storeOn(t, natstest.New(t))
	wakes := records.NewWakes(store.Store)
	revision, err := wakes.Put(t.Context(), "s", wake.Consumer{Path: "/a"}, 0)
	require.NoError(t, err)
	require.NoError(t, store.Bind(t.Context(), sluice.StorageScarce, 1<<30))
	_, err = wakes.Put(t.Context(), "s", wake.Consumer{Path: "/b"}, 0)
	require.True(t, sluice.IsFull(err), "%v", err)
	_, err = wakes.Put(t.Context(), "s", wake.Consumer{Path: "/a", Epoch: 1}, revision)
	require.NoError(t, err)
	require.NoError(t, store.Bind(t.Context(), sluice.StorageTight, 1<<30))
	_, err = wakes.Put(t.Context(), "s", wake.Consumer{Path: "/b"}, 0)
	require.NoError(t, err)
}
