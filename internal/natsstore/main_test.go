package natsstore_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/natsstore/deliverystore"
	"github.com/sluice-io/sluice/internal/natsstore/eventlog"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/internal/testkit/storetest"
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
	all := storetest.Connect(tb, opts)
	return rooms{all.Store, all.Log}
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
