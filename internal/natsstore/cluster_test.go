package natsstore_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// What holds for records on one server holds on three.
func TestCluster_KeepsRecords(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes some eight seconds")
	}
	cluster := natstest.NewCluster(t)
	store := connected(t, natsstore.Options{URL: cluster.URL(), Replicas: 3})
	require.NoError(t, store.Provision(t.Context()))
	b := records(store)
	revision, err := b.Put(t.Context(), "k", record{-1}, 0)
	require.NoError(t, err)
	_, err = b.Put(t.Context(), "k", record{}, 0)
	requireCode(t, sluice.Conflict, err)
	requireCode(t, sluice.Conflict, b.Delete(t.Context(), "k", revision+1))
	for i := range 200 { // read your writes
		revision, err = b.Put(t.Context(), "k", record{i}, revision)
		require.NoError(t, err)
		got, at, err := b.Get(t.Context(), "k")
		require.NoError(t, err)
		require.Equal(t, i, got.N)
		require.Equal(t, revision, at)
	}
	told := watch(t, b, ">")
	untilTold(t, told, "set k 199") // a replica that is behind begins with an older one

	lettersAreShared(t, store, connected(t, natsstore.Options{URL: cluster.URL(), Replicas: 3}))

	cluster.StopLeader(t, streams.Names{}.EventsStream(ns))
	publish(t, store, ns, "/after") // repeated until the cluster has its leaders again
	_, err = b.Put(t.Context(), "after", record{7}, 0)
	require.NoError(t, err)
	untilTold(t, told, "set after 7")
}

func untilTold(t *testing.T, told <-chan natsstore.Entry[record], what string) {
	t.Helper()
	for {
		if next(t, told) == what {
			return
		}
	}
}
