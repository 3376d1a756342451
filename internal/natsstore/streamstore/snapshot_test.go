package streamstore_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/fanout"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/natsstore/eventlog"
	"github.com/sluice-io/sluice/internal/natsstore/streamstore"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/internal/testkit/storetest"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// S3-40: sequences that were given out after a backup are given out again after its restoration, to other events. So the
// restored log is another incarnation; its messages are the same.
func TestRestoreStream_MakesAnotherIncarnation(t *testing.T) {
	t.Parallel()
	server := natstest.New(t)
	store := storetest.Connect(t, natsstore.Options{Conn: server})
	require.NoError(t, store.Provision(t.Context()))
	_, err := store.Log.Publish(t.Context(), sluice.DefaultNamespace, []sluice.Event{{ID: "kept", Path: "/a"}})
	require.NoError(t, err)
	was, err := store.Log.Incarnation(t.Context(), sluice.DefaultNamespace)
	require.NoError(t, err)

	files := streamstore.New(store.Store)
	var data bytes.Buffer
	taken, err := files.SnapshotStream(t.Context(), defaultLog, &data)
	require.NoError(t, err)
	require.NoError(t, natstest.JetStream(t, server).DeleteStream(t.Context(), defaultLog))
	state, err := files.RestoreStream(t.Context(), defaultLog, taken, &data)
	require.NoError(t, err)
	require.True(t, taken.Holds(state))
	is, err := store.Log.Incarnation(t.Context(), sluice.DefaultNamespace)
	require.NoError(t, err)
	require.NotEqual(t, was, is)
	bounds, err := eventlog.Shared{Log: store.Log}.Bounds(t.Context(), sluice.DefaultNamespace)
	require.NoError(t, err)
	require.Equal(t, fanout.Bounds{First: 1, Last: 1, Log: is, Former: was}, bounds)
	ev, err := store.Log.Event(t.Context(), sluice.DefaultNamespace, 1)
	require.NoError(t, err)
	require.Equal(t, "kept", ev.ID)
	require.NoError(t, store.Provision(t.Context()))
	still, err := store.Log.Incarnation(t.Context(), sluice.DefaultNamespace)
	require.NoError(t, err)
	require.Equal(t, is, still)
}
