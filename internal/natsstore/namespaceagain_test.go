package natsstore_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/internal/testkit/storetest"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Issue 16: a namespace that is deleted and made again at once has none of its former events, although nats-server has left files.
func TestNamespaces_MadeAgainHasNoFormerEvents(t *testing.T) {
	t.Parallel()
	server := natstest.New(t)
	js, store := natstest.JetStream(t, server), storetest.Connect(t, natsstore.Options{Conn: server})
	require.NoError(t, store.Provision(t.Context()))
	for range 60 {
		require.Eventually(t, func() bool {
			_, _, err := store.Namespaces().Put(t.Context(), sluice.Namespace{Name: "again"})
			return err == nil
		}, time.Minute, time.Millisecond)
		info, err := store.EventsInfo(t.Context(), "again")
		require.NoError(t, err)
		require.Zero(t, info.State.Msgs)
		_, err = js.Publish(t.Context(), "events.again.a", []byte("x"))
		require.NoError(t, err)
		require.NoError(t, store.Namespaces().Delete(t.Context(), "again"))
	}
}
