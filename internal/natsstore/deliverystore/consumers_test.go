package deliverystore_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// A subscription that was just moved is given its consumers by who serves it and by who changes
// it, at the same time.
func TestConsumers_AreMadeBySeveralAtOnce(t *testing.T) {
	t.Parallel()
	store, server := provisioned(t)
	sub := &sluice.Subscription{
		ID: "s", Namespace: sluice.DefaultNamespace, Pattern: "/a", Lifecycle: sluice.Lifecycle{State: sluice.Active, CreatedAt: time.Now().UTC()},
		From: sluice.StartAt{Kind: sluice.StartSeq, Seq: 1},
	}
	sub.SetDefaults()
	for range 20 {
		moved := time.Now().UTC()
		sub.SoughtAt = &moved
		store.keep(t, sub)
		made := make(chan error, 4)
		for range cap(made) {
			go func() { made <- store.EnsureConsumers(t.Context(), sub) }()
		}
		for range cap(made) {
			require.NoError(t, <-made)
		}
		_, err := natstest.JetStream(t, server).Consumer(t.Context(), streams.Names{}.EventsStream(sub.Namespace), "s")
		require.NoError(t, err)
	}
}

// A replica that learns late of a subscription's end leaves no consumers behind.
func TestConsumers_EndedSubscriptionGetsNone(t *testing.T) {
	t.Parallel()
	store, server := provisioned(t)
	cancelled := &sluice.Subscription{ID: "cancelled", Namespace: sluice.DefaultNamespace, Pattern: "/a", Lifecycle: sluice.Lifecycle{State: sluice.Active}}
	gone := &sluice.Subscription{ID: "gone", Namespace: sluice.DefaultNamespace, Pattern: "/a", Lifecycle: sluice.Lifecycle{State: sluice.Active}}
	for _, sub := range []*sluice.Subscription{cancelled, gone} {
		sub.SetDefaults()
		sub.CreatedAt, sub.From = time.Now().UTC(), sluice.StartAt{Kind: sluice.StartSeq, Seq: 1}
		now := *sub
		now.State = sluice.Cancelled
		store.keep(t, &now)
		if sub == gone {
			require.NoError(t, store.core.Subscriptions().Delete(t.Context(), sub.ID, now.Revision))
		}
		requireCode(t, sluice.NotFound, store.EnsureConsumers(t.Context(), sub))
		_, err := natstest.JetStream(t, server).Consumer(t.Context(), streams.Names{}.EventsStream(sub.Namespace), sub.ID)
		require.ErrorIs(t, err, jetstream.ErrConsumerNotFound)
	}
}
