package records_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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
