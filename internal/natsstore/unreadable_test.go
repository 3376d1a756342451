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
