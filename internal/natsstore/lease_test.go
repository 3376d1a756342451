package natsstore_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/natsstore"
)

// runLeases runs a replica's leases. What it is told to leave has come to rest when settled says so.
func runLeases(t *testing.T, store rooms, replica string, settled <-chan struct{}) *natsstore.Leases {
	t.Helper()
	leases, err := store.Leases(t.Context(), replica)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = leases.Run(ctx, func() <-chan struct{} { return settled }) }) // it only ends with ctx
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return leases
}

// S4-22: a replica that joins gets its share when what is under way elsewhere is finished, and
// not before: it would be sent twice.
func TestLease_IsHandedOverAfterItsWork(t *testing.T) {
	t.Parallel()
	store, _ := provisioned(t)
	settled, none := make(chan struct{}), make(chan struct{})
	close(none)
	owned := func(l *natsstore.Leases) (n int) {
		for i := range 100 {
			if l.Owns(fmt.Sprint("s", i)) {
				n++
			}
		}
		return n
	}
	one := runLeases(t, store, "one", settled)
	require.Eventually(t, func() bool { return owned(one) == 100 }, 10*time.Second, 10*time.Millisecond)
	two := runLeases(t, store, "two", none)
	require.Eventually(t, func() bool { return owned(one) < 100 }, 10*time.Second, 10*time.Millisecond)
	require.Never(t, func() bool { return owned(two) > 0 }, 11*time.Second, 100*time.Millisecond, "two rounds")
	left := owned(one) // not before: a round takes a moment
	close(settled)
	require.Eventually(t, func() bool { return owned(two) == 100-left }, 10*time.Second, 10*time.Millisecond)
	require.Equal(t, left, owned(one))
}
