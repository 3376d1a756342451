package records_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/natsstore/records"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/internal/testkit/storetest"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// A namespace whose log was deleted in NATS is damaged, and not gone: its stream subscriptions are no orphans.
func TestStreamLogs_MissingLogIsNoMissingNamespace(t *testing.T) {
	t.Parallel()
	server := natstest.New(t)
	store := storetest.Connect(t, natsstore.Options{Conn: server})
	require.NoError(t, store.Provision(t.Context()))
	_, _, err := store.Namespaces().Put(t.Context(), sluice.Namespace{Name: "n"})
	require.NoError(t, err)
	logs := records.StreamLogs{Log: store.Log, Namespaces: store.Namespaces()}
	answers := func(want sluice.Code, namespace string) {
		t.Helper()
		_, err := logs.LastSeq(t.Context(), namespace)
		require.Equal(t, want, sluice.CodeOf(err))
		if want != "" {
			err = logs.FollowTails(t.Context(), namespace, func(sluice.Path, uint64) { require.Fail(t, "there is nothing") })
			require.Equal(t, want, sluice.CodeOf(err))
		}
	}
	answers("", "n")
	require.NoError(t, natstest.JetStream(t, server).DeleteStream(t.Context(), streams.Names{}.EventsStream("n")))
	answers(sluice.Unavailable, "n")
	require.NoError(t, store.Namespaces().Delete(t.Context(), "n"))
	answers(sluice.NotFound, "n")
	answers(sluice.NotFound, "no name!")
}
