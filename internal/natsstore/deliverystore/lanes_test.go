package deliverystore_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// With little room no further lane is parked, and those that are go on.
func TestPark_NeedsRoom(t *testing.T) {
	t.Parallel()
	store, _ := provisioned(t)
	sub := &sluice.Subscription{ID: "s", Namespace: sluice.DefaultNamespace}
	lane := func(n uint64) sluice.Parked {
		return sluice.Parked{Lane: streams.LaneKey(sub.ID, sluice.OrderByPath, "/a", n), FromSeq: n}
	}
	revision, err := store.Park(t.Context(), sub, lane(1), 0)
	require.NoError(t, err)
	require.NoError(t, store.core.Bind(t.Context(), sluice.StorageScarce, 1<<20))
	_, err = store.Park(t.Context(), sub, sluice.Parked{Lane: "s.p.b", FromSeq: 2}, 0)
	requireCode(t, sluice.Unavailable, err)
	require.ErrorContains(t, err, "full")
	_, err = store.Park(t.Context(), sub, lane(1), revision)
	require.NoError(t, err)
}
