package deliverystore_test

import (
	"fmt"
	"testing"
	"time"

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

// patience is how long a test waits for what has to come, on a machine that has much else to do.
const patience = time.Minute

// rooms is a store with everything in place, and its room for deliveries.
type rooms struct {
	*deliverystore.Store

	core *natsstore.Store
	log  *eventlog.Log
}

// provisioned returns a store on a server of its own.
func provisioned(tb testing.TB) (rooms, *natstest.Server) {
	tb.Helper()
	server := natstest.New(tb)
	store := connected(tb, natsstore.Options{Conn: server})
	require.NoError(tb, store.core.Provision(tb.Context()))
	return store, server
}

func connected(tb testing.TB, opts natsstore.Options) rooms {
	tb.Helper()
	all := storetest.Connect(tb, opts)
	return rooms{all.Deliveries, all.Store, all.Log}
}

// keep stores a subscription as it is.
func (r rooms) keep(t *testing.T, sub *sluice.Subscription) {
	t.Helper()
	revision, err := r.core.Subscriptions().Put(t.Context(), sub.ID, sub, sub.Revision)
	require.NoError(t, err)
	sub.Revision = revision
}

// publish stores an event on each path.
func (r rooms) publish(t *testing.T, paths ...sluice.Path) {
	t.Helper()
	for i, path := range paths {
		_, err := r.log.Publish(t.Context(), sluice.DefaultNamespace, []sluice.Event{{ID: fmt.Sprintf("%s#%d", path, i), Path: path}})
		require.NoError(t, err)
	}
}

func requireCode(tb testing.TB, want sluice.Code, err error) {
	tb.Helper()
	require.Equal(tb, want, sluice.CodeOf(err), "%v", err)
}
