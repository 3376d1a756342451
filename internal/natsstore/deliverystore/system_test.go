package deliverystore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
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

// A scan that began before its subscription was deleted leaves no record behind.
func TestLook_EndedSubscriptionLeavesNoRecord(t *testing.T) {
	t.Parallel()
	store, server := provisioned(t)
	sub := &sluice.Subscription{
		ID: "s", Namespace: sluice.DefaultNamespace, Pattern: "/**", Lifecycle: sluice.Lifecycle{State: sluice.Active, CreatedAt: time.Now().UTC()},
		From: sluice.StartAt{Kind: sluice.StartSeq, Seq: 1},
	}
	sub.SetDefaults()
	store.keep(t, sub)
	require.NoError(t, store.EnsureConsumers(t.Context(), sub))
	store.publish(t, "/a")
	require.NoError(t, store.core.Subscriptions().Delete(t.Context(), sub.ID, sub.Revision))
	require.NoError(t, store.RemoveConsumers(t.Context(), sub))

	wanted := func(*sluice.Event) bool { return true }
	lost := func(from, to uint64) error { return fmt.Errorf("%d to %d are not lost", from, to) }
	requireCode(t, sluice.NotFound, store.Look(t.Context(), sub, wanted, lost))
	kv, err := natstest.JetStream(t, server).KeyValue(t.Context(), streams.Lanes)
	require.NoError(t, err)
	_, err = kv.Get(t.Context(), streams.LookoutKey(sub.ID))
	require.ErrorIs(t, err, jetstream.ErrKeyNotFound)
}
