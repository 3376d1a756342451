package natsstore_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// A record of the other kind that is stored at the same time is seen by one of the two, which removes its own.
func TestPutExclusive_WithdrawsFromARace(t *testing.T) {
	t.Parallel()
	store, _ := provisioned(t)
	one, other := natsstore.OpenBucket[string](store.Store, streams.Subscriptions), natsstore.OpenBucket[struct{}](store.Store, streams.Mirrors)
	_, err := one.PutExclusive(t.Context(), streams.Mirrors, "id", func() (uint64, error) {
		_, err := other.Put(t.Context(), "id", struct{}{}, 0)
		require.NoError(t, err)
		return one.Put(t.Context(), "id", "text", 0)
	})
	requireCode(t, sluice.SubscriptionDiffers, err)
	_, _, err = one.Get(t.Context(), "id")
	requireCode(t, sluice.NotFound, err)
}
