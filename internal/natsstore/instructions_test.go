package natsstore_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

func TestInstructions_AreKeptByKindNamespaceAndID(t *testing.T) {
	t.Parallel()
	store, _ := provisioned(t)
	type record struct{ N int }
	appointments := natsstore.OpenInstructions[record](store.Store, sluice.KindAppointment)
	watches := natsstore.OpenInstructions[record](store.Store, sluice.KindWatch)
	ctx := t.Context()

	first, err := appointments.Put(ctx, "acme", "a", record{1}, 0)
	require.NoError(t, err)
	for _, put := range []struct {
		of natsstore.Instructions[record]
		ns string
	}{{watches, "acme"}, {appointments, "other"}} {
		_, err = put.of.Put(ctx, put.ns, "a", record{2}, 0)
		require.NoError(t, err)
	}

	_, err = appointments.Put(ctx, "acme", "a", record{3}, 0)
	require.Equal(t, sluice.Conflict, sluice.CodeOf(err))
	second, err := appointments.Put(ctx, "acme", "a", record{3}, first)
	require.NoError(t, err)
	_, err = appointments.Put(ctx, "acme", "a.b", record{3}, 0)
	require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(err))

	value, revision, err := appointments.Get(ctx, "acme", "a")
	require.NoError(t, err)
	require.Equal(t, record{3}, value)
	require.Equal(t, second, revision)
	for _, id := range []string{"b", "*", "", "a.b"} {
		_, _, err = appointments.Get(ctx, "acme", id)
		require.Equal(t, sluice.NotFound, sluice.CodeOf(err), id)
	}

	of, err := appointments.List(ctx, "acme")
	require.NoError(t, err)
	require.Equal(t, []natsstore.Instruction[record]{{Namespace: "acme", ID: "a", Value: record{3}, Revision: second}}, of)
	all, err := appointments.List(ctx, "")
	require.NoError(t, err)
	require.Len(t, all, 2)

	require.Equal(t, sluice.Conflict, sluice.CodeOf(appointments.Delete(ctx, "acme", "a", first)))
	places := natsstore.OpenBucket[record](store.Store, streams.Watches)
	for _, namespace := range []string{"acme", "other"} {
		_, err := places.Put(ctx, streams.WatchKey(namespace, "w"), record{}, 0)
		require.NoError(t, err)
	}
	require.NoError(t, store.Namespaces().DeleteInstructions(ctx, "acme"))
	kept, err := places.List(ctx, ">")
	require.NoError(t, err)
	require.Len(t, kept, 1)
	require.Equal(t, streams.WatchKey("other", "w"), kept[0].Key)
	for _, kind := range []natsstore.Instructions[record]{appointments, watches} {
		left, err := kind.List(ctx, "acme")
		require.NoError(t, err)
		require.Empty(t, left)
	}
	all, err = appointments.List(ctx, "")
	require.NoError(t, err)
	require.Len(t, all, 1)
}

func TestInstructions_WatchGivesItsKindOnly(t *testing.T) {
	t.Parallel()
	store, _ := provisioned(t)
	appointments := natsstore.OpenInstructions[int](store.Store, sluice.KindAppointment)
	watches := natsstore.OpenInstructions[int](store.Store, sluice.KindWatch)
	_, err := watches.Put(t.Context(), "acme", "w", 1, 0)
	require.NoError(t, err)
	revision, err := appointments.Put(t.Context(), "acme", "a", 1, 0)
	require.NoError(t, err)
	told := make(chan natsstore.Instruction[int], 8)
	go func() { _ = appointments.Watch(t.Context(), func(i natsstore.Instruction[int]) { told <- i }) }()

	require.Equal(t, natsstore.Instruction[int]{Namespace: "acme", ID: "a", Value: 1, Revision: revision}, <-told)
	require.Equal(t, natsstore.CaughtUp, (<-told).Change)
	require.NoError(t, appointments.Delete(t.Context(), "acme", "a", revision))
	gone := <-told
	require.Equal(t, natsstore.Removed, gone.Change)
	require.Equal(t, "a", gone.ID)
}
