// Package storetest connects tests to a store and the stores built on it.
package storetest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/natsstore/deliverystore"
	"github.com/sluice-io/sluice/internal/natsstore/eventlog"
)

// Rooms is a store with the stores built on it.
type Rooms struct {
	*natsstore.Store

	Log        *eventlog.Log
	Deliveries *deliverystore.Store
}

// Connect returns a store that is closed with the test. It fails the test if the store cannot be
// reached.
func Connect(tb testing.TB, opts natsstore.Options) Rooms {
	tb.Helper()
	store, err := natsstore.Connect(tb.Context(), opts)
	require.NoError(tb, err)
	tb.Cleanup(store.Close)
	log := eventlog.New(tb.Context(), store)
	return Rooms{store, log, deliverystore.New(store, log)}
}
