package natsstore_test

import (
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/natsstore/deliverystore"
	"github.com/sluice-io/sluice/internal/natsstore/eventlog"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/pkg/sluice"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rooms is a store, and its room for the logs of events.
type rooms struct {
	*natsstore.Store

	log *eventlog.Log
}

func (r rooms) deliveries() *deliverystore.Store { return deliverystore.New(r.Store, r.log) }

// provisioned returns a store on a server of its own with everything in place.
func provisioned(tb testing.TB) (rooms, *natstest.Server) {
	tb.Helper()
	server := natstest.New(tb)
	store := connected(tb, natsstore.Options{Conn: server})
	require.NoError(tb, store.Provision(tb.Context()))
	return store, server
}

func connected(tb testing.TB, opts natsstore.Options) rooms {
	tb.Helper()
	store, err := natsstore.Connect(tb.Context(), opts)
	require.NoError(tb, err)
	tb.Cleanup(store.Close)
	return rooms{store, eventlog.New(tb.Context(), store)}
}

// raw returns JetStream as any other client has it.
func raw(tb testing.TB, server *natstest.Server) jetstream.JetStream {
	tb.Helper()
	nc, err := nats.Connect("", nats.InProcessServer(server))
	require.NoError(tb, err)
	tb.Cleanup(nc.Close)
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(100_000)) // nothing waits for room: a busy machine takes its time
	require.NoError(tb, err)
	return js
}

func requireCode(tb testing.TB, want sluice.Code, err error) {
	tb.Helper()
	require.Equal(tb, want, sluice.CodeOf(err), "%v", err)
}

const ns = sluice.DefaultNamespace

// publish stores one event without data at each path, one after the other.
func publish(tb testing.TB, store rooms, namespace string, paths ...sluice.Path) {
	tb.Helper()
	for i, path := range paths {
		_, err := store.log.Publish(tb.Context(), namespace, []sluice.Event{{ID: fmt.Sprintf("%s#%d", path, i), Path: path}})
		require.NoError(tb, err)
	}
}
