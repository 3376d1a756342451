package records_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/internal/wake"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// busyRecords has another writer store something right after records have been listed.
type busyRecords struct {
	wake.Records

	meanwhile func()
}

// List returns a subscription's records.
func (r busyRecords) List(ctx context.Context, subscription string) ([]wake.Entry, error) {
	all, err := r.Records.List(ctx, subscription)
	r.meanwhile()
	return all, err
}

// A subscription is deleted while its owner has not heard of that yet and wakes a consumer once more: the next
// subscription of the same id does not begin with an epoch that a worker was told of.
func TestEpoch_OfADeletedSubscriptionIsNotReused(t *testing.T) { // S1-114, S1-128
	t.Parallel()
	store := storeOn(t, natstest.New(t))
	s := openSite(t, store, "n", sluice.Policy{}, 1)
	notices := s.notices(t, `{"done":true}`)
	owner, err := s.node(store, true, nil)
	require.NoError(t, err)
	wakeUp := func() wake.Notice {
		t.Helper()
		_, err := s.append("/a/1")
		require.NoError(t, err)
		n := <-notices
		require.True(t, soon(time.Minute, func() bool { return s.record("/a/1").State == sluice.WakeIdle }))
		return n
	}
	wakeUp()
	var last wake.Notice
	deleting, err := s.node(store, false, func(ports *wake.Deps, _ *wake.Options) {
		ports.Records = busyRecords{ports.Records, func() {
			if last.Epoch == 0 {
				last = wakeUp()
			}
		}}
	})
	require.NoError(t, err)
	defer deleting.stop()
	require.NoError(t, deleting.engine.Forget(t.Context(), s.sub))
	owner.stop()
	require.NoError(t, deleting.engine.Forget(t.Context(), s.sub))
	require.Equal(t, uint64(2), last.Epoch)

	s.sub.CreatedAt = s.sub.CreatedAt.Add(time.Second)
	again, err := s.node(store, true, nil)
	require.NoError(t, err)
	defer again.stop()
	require.Greater(t, wakeUp().Epoch, last.Epoch)

	require.NoError(t, deleting.engine.Forget(t.Context(), earlier(s.sub)))
	require.Equal(t, sluice.WakeIdle, s.record("/a/1").State, "who is late with the deletion takes nothing from the next one")
}

// earlier returns a subscription as it was before it was made again.
func earlier(sub *sluice.Subscription) *sluice.Subscription {
	before := *sub
	before.CreatedAt = before.CreatedAt.Add(-time.Second)
	return &before
}
