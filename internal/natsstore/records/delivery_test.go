package records_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/delivery"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/natsstore/records"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/internal/testkit/storetest"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// counts has the ids of the subscriptions that count.
type counts map[string]bool

func (c counts) Set(sub *sluice.Subscription) { c[sub.ID] = true }
func (c counts) Remove(id string)             { delete(c, id) }

// The engine gets a subscription whose change cannot be read as paused, also after a lost connection: it would delete the
// parked lanes of a deleted one.
func TestSubscriptions_UnreadableChangeIsPause(t *testing.T) {
	t.Parallel()
	server := natstest.New(t)
	store := storetest.Connect(t, natsstore.Options{Conn: server}).Store
	require.NoError(t, store.Provision(t.Context()))
	spoil := func(id string) {
		_, err := natstest.JetStream(t, server).Publish(t.Context(), store.Names().KeySubject(streams.Subscriptions, id), []byte(`{"subscription":7}`))
		require.NoError(t, err)
	}
	put := func(id string, state sluice.State) {
		sub := &sluice.Subscription{ID: id, Namespace: "n", Mode: sluice.Push, Pattern: "/a/**", Lifecycle: sluice.Lifecycle{State: state}}
		_, err := store.Subscriptions().Put(t.Context(), id, sub, 0)
		require.NoError(t, err)
	}
	put("s", sluice.Active)
	put("disabled", sluice.Disabled)
	spoil("never-readable")
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	counted, told := counts{}, []string{}
	_ = records.Subscriptions{
		Stored: store.Subscriptions(), Counts: counted, CaughtUp: func() {}, Know: func(string, *sluice.Subscription) {}, Forget: func(string) {}, Applied: records.NewApplied(),
	}.Watch(ctx, func(id string, sub *sluice.Subscription) {
		switch {
		case id == "":
			told = append(told, "all")
			spoil("disabled")
			spoil("s")
			server.Restart(t)
		case sub == nil:
			told = append(told, id+" deleted")
			stop()
		default:
			told = append(told, id+" "+string(sub.State))
			if sub.State == sluice.Paused {
				require.Equal(t, counts{"s": true, "disabled": true}, counted)
				put("later", sluice.Active)
			}
			if id == "later" {
				require.NoError(t, store.Subscriptions().Delete(ctx, "s", 0))
			}
		}
	})
	require.Equal(t, []string{"s active", "disabled disabled", "all", "s paused", "later active", "s deleted"}, told)
}

// Events that left the log while a subscription was suspended are dead letters before it goes on at its place.
func TestConsumers_PlaceExpiresFirst(t *testing.T) {
	t.Parallel()
	server := natstest.New(t)
	store := storetest.Connect(t, natsstore.Options{Conn: server})
	require.NoError(t, store.Provision(t.Context()))
	sub := &sluice.Subscription{
		ID: "s", Namespace: sluice.DefaultNamespace, Mode: sluice.Push, Pattern: "/a/*", Lifecycle: sluice.Lifecycle{State: sluice.Suspended}, From: sluice.StartAt{Kind: sluice.StartSeq, Seq: 1},
	}
	sub.SetDefaults()
	_, err := store.Subscriptions().Put(t.Context(), sub.ID, sub, 0)
	require.NoError(t, err)
	log, err := store.Deliveries.AttemptLog()
	require.NoError(t, err)
	engine := delivery.New(nil, nil, delivery.Deps{Sources: records.Sources{Store: store.Deliveries}, Log: log}, delivery.Options{})
	consumers := records.Consumers{Store: store.Deliveries, Expire: engine.Expire}
	require.NoError(t, consumers.Ensure(t.Context(), sub))
	for _, id := range []string{"1", "2", "3"} {
		_, err := store.Log.Publish(t.Context(), sub.Namespace, []sluice.Event{{ID: id, Path: "/a/1"}})
		require.NoError(t, err)
	}
	require.NoError(t, engine.Expire(t.Context(), sub)) // the last look before retention removes two of them
	stream, err := natstest.JetStream(t, server).Stream(t.Context(), streams.Names{}.EventsStream(sub.Namespace))
	require.NoError(t, err)
	require.NoError(t, stream.Purge(t.Context(), jetstream.WithPurgeSequence(3)))

	sub.Filter.CEL = "no expression of this build (" // which may be why the module is approved anew
	place, err := consumers.Place(t.Context(), sub)
	require.NoError(t, err)
	require.EqualValues(t, 3, place)
	letters, err := store.Deliveries.DeadLetters(t.Context(), sub, 1, 100, 100)
	require.NoError(t, err)
	require.Len(t, letters, 1)
	require.Equal(t, []any{sluice.Expired, uint64(1), uint64(2)}, []any{letters[0].Reason, letters[0].Seq, letters[0].LastSeq})
}
