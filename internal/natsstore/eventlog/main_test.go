package eventlog_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/natsstore/eventlog"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/internal/testkit/storetest"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rooms is the logs of events, and the store that they are in.
type rooms struct {
	*eventlog.Log

	core *natsstore.Store
}

// provisioned returns a store on a server of its own with everything in place.
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
	return rooms{all.Log, all.Store}
}

// numbers returns a bucket of numbers.
func numbers(store rooms) natsstore.Bucket[int] {
	return natsstore.OpenBucket[int](store.core, streams.Lanes)
}

func requireCode(tb testing.TB, want sluice.Code, err error) {
	tb.Helper()
	require.Equal(tb, want, sluice.CodeOf(err), "%v", err)
}
