package deliverystore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Decision 0007: what was handed out when serving ended does not count as waiting for ever.
func TestLook_SettlesUnansweredSystemEvents(t *testing.T) {
	t.Parallel()
	store, server := provisioned(t)
	sub := &sluice.Subscription{
		ID: "s", Namespace: sluice.DefaultNamespace, Pattern: "/**", Lifecycle: sluice.Lifecycle{State: sluice.Paused, CreatedAt: time.Now().UTC()},
		From: sluice.StartAt{Kind: sluice.StartSeq, Seq: 1},
	}
	sub.SetDefaults()
	store.keep(t, sub)
	require.NoError(t, store.EnsureConsumers(t.Context(), sub))
	store.publish(t, "/_sys/subscriptions/s", "/a", "/_sys/deliveries/s", "/_sys/x")
	c, err := natstest.JetStream(t, server).Consumer(t.Context(), "EVENTS_default", "s")
	require.NoError(t, err)
	batch, err := c.Fetch(3)
	require.NoError(t, err)
	handed := 0
	for range batch.Messages() {
		handed++
	}
	require.Equal(t, 3, handed)
	backlog := func() uint64 {
		status, err := store.Status(t.Context(), sub)
		require.NoError(t, err)
		return status.Backlog
	}
	require.Equal(t, uint64(3), backlog(), "none of them was acknowledged")
	lost := func(from, to uint64) error { return fmt.Errorf("%d to %d are not lost", from, to) }
	wanted := func(e *sluice.Event) bool { return sub.Pattern.Match(e.Path) }
	require.NoError(t, store.Look(t.Context(), sub, wanted, lost))
	require.Eventually(t, func() bool { return backlog() == 1 }, time.Minute, 5*time.Millisecond, "only /a waits")
}
