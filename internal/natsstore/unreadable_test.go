package natsstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// A record that cannot be read counts as removed, has no part of its value, and is told from one that was removed.
func TestBucket_UnreadableRecordHasNoValue(t *testing.T) {
	t.Parallel()
	server := natstest.New(t)
	store := connected(t, natsstore.Options{Conn: server})
	require.NoError(t, store.Provision(t.Context()))
	bucket := natsstore.OpenBucket[sluice.Namespace](store.Store, streams.Namespaces)
	_, err := bucket.Put(t.Context(), "a", sluice.Namespace{Name: "a"}, 0)
	require.NoError(t, err)
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	var removed natsstore.Entry[sluice.Namespace]
	_ = bucket.Watch(ctx, "a", func(e natsstore.Entry[sluice.Namespace]) {
		switch e.Change {
		case natsstore.Set:
		case natsstore.CaughtUp:
			_, err := natstest.JetStream(t, server).Publish(ctx, store.Names().KeySubject(streams.Namespaces, "a"), []byte(`{"name":"a","description":7}`))
			require.NoError(t, err)
		case natsstore.Removed:
			removed = e
			stop()
		}
	})
	require.Equal(t, natsstore.Entry[sluice.Namespace]{Key: "a", Revision: removed.Revision, Change: natsstore.Removed, Unreadable: true}, removed)
}

// A subscription that cannot be read any more is paused: watchers of a removal forget its parked lanes. The removal of
// its record is one.
func TestSubscriptions_UnreadableChangeIsPause(t *testing.T) {
	t.Parallel()
	server := natstest.New(t)
	store := connected(t, natsstore.Options{Conn: server})
	require.NoError(t, store.Provision(t.Context()))
	subs, js := store.Subscriptions(), natstest.JetStream(t, server)
	was := &sluice.Subscription{ID: "s", Namespace: ns, Mode: sluice.Push, Pattern: "/a/**", Lifecycle: sluice.Lifecycle{State: sluice.Active}}
	_, err := subs.Put(t.Context(), was.ID, was, 0)
	require.NoError(t, err)
	spoil := func(id string) {
		_, err := js.Publish(t.Context(), store.Names().KeySubject(streams.Subscriptions, id), []byte(`{"subscription":7}`))
		require.NoError(t, err)
	}
	spoil("never-readable")
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	var told []natsstore.Entry[*sluice.Subscription]
	_ = subs.Watch(ctx, func(e natsstore.Entry[*sluice.Subscription]) {
		told = append(told, e)
		switch {
		case e.Change == natsstore.CaughtUp:
			spoil("s")
			server.Restart(t)
		case e.Change == natsstore.Removed:
			stop()
		case e.Value.State == sluice.Paused:
			require.NoError(t, subs.Delete(ctx, "s", e.Revision))
		}
	})
	require.Len(t, told, 4)
	require.Equal(t, []natsstore.Change{natsstore.Set, natsstore.CaughtUp, natsstore.Set, natsstore.Removed},
		[]natsstore.Change{told[0].Change, told[1].Change, told[2].Change, told[3].Change})
	want := *told[0].Value
	require.Equal(t, sluice.Active, want.State)
	want.State = sluice.Paused
	require.Equal(t, &want, told[2].Value)
	require.Equal(t, natsstore.Entry[*sluice.Subscription]{Key: "s", Revision: told[3].Revision, Change: natsstore.Removed}, told[3])
	require.Greater(t, told[3].Revision, told[2].Revision, "it was deleted after it could not be read")
}
