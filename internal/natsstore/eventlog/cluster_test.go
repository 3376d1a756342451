package eventlog_test

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// What holds on one server holds on three, where other code of JetStream answers and a read
// may be answered by a replica that is behind.
func TestCluster_KeepsThePromises(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes some eight seconds")
	}
	cluster := natstest.NewCluster(t)
	store := connected(t, natsstore.Options{URL: cluster.URL(), Replicas: 3})
	require.NoError(t, store.core.Provision(t.Context()))
	require.NoError(t, store.core.Provision(t.Context()))

	events := batchOf("x", 5)
	_, err := store.Publish(t.Context(), ns, events[1:3])
	require.NoError(t, err)
	stored, err := store.Publish(t.Context(), ns, events)
	require.NoError(t, err)
	places, duplicates := seqs(stored)
	require.Equal(t, []uint64{3, 1, 2, 4, 5}, places)
	require.Equal(t, []bool{false, true, true, false, false}, duplicates)
	last, err := store.LastSeq(t.Context(), ns)
	require.NoError(t, err)
	require.Equal(t, uint64(5), last, "looking up stores nothing")
	e, err := store.EventByID(t.Context(), ns, "x4")
	require.NoError(t, err)
	require.Equal(t, uint64(5), e.Seq)

	for i := range 200 {
		path := sluice.Path("/state/" + strconv.Itoa(i%7))
		stored, err := store.Publish(t.Context(), ns, []sluice.Event{{ID: "s" + strconv.Itoa(i), Path: path}})
		require.NoError(t, err)
		page, err := store.State(t.Context(), ns, model.StateQuery{Pattern: "/state/*"})
		require.NoError(t, err)
		require.Equal(t, stored[0].Seq, page.Seq)
		require.Len(t, page.Events, min(i+1, 7))
		require.Equal(t, stored[0].Seq, page.Events[len(page.Events)-1].Seq, "what was stored before is in the state")
	}

	batchesStayInOnePiece(t, store)

	cluster.StopLeader(t, streams.Names{}.EventsStream(ns))
	for i := range 3 {
		_, err = store.Publish(t.Context(), ns, batchOf("y"+strconv.Itoa(i), 1+i))
		require.NoError(t, err)
	}
	last, err = store.LastSeq(t.Context(), ns)
	require.NoError(t, err)
	require.Equal(t, uint64(5+200+1+2+3), last, "nothing twice, however often it was sent")
}
