package deliverystore_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// A change of a replay that cannot be read is not passed: as a removal, it would delete the replay's lanes. The removal
// of its record is passed.
func TestReplays_UnreadableChangeIsNotPassed(t *testing.T) {
	t.Parallel()
	store, server := provisioned(t)
	rep := sluice.Replay{ID: "r", Subscription: "s"}
	require.NoError(t, store.Replays().Add(t.Context(), rep))
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	var told []natsstore.Change
	_ = store.Replays().Watch(ctx, func(e natsstore.Entry[sluice.Replay]) {
		told = append(told, e.Change)
		switch {
		case e.Change == natsstore.CaughtUp:
			_, err := natstest.JetStream(t, server).Publish(ctx, store.core.Names().KeySubject(streams.Replays, streams.ReplayKey("s", "r")), []byte(`{"id":7}`))
			require.NoError(t, err)
			require.NoError(t, store.Replays().Add(ctx, sluice.Replay{ID: "later", Subscription: "s"}))
		case e.Value.ID == "later":
			require.NoError(t, store.Replays().Drop(ctx, rep))
		case e.Change == natsstore.Removed:
			require.Equal(t, sluice.Replay{ID: "r", Subscription: "s"}, e.Value)
			stop()
		}
	})
	require.Equal(t, []natsstore.Change{natsstore.Set, natsstore.CaughtUp, natsstore.Set, natsstore.Removed}, told)
}
