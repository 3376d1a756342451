package natsstore_test

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/pkg/sluice"
)

func runLog(t *testing.T, store *natsstore.Store) *natsstore.AttemptLog {
	t.Helper()
	log, err := store.AttemptLog()
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = log.Run(ctx) }) // it only ends with ctx
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return log
}

// C01: what was under way when NATS went is stored within a moment of its return, however much
// it is.
func TestRecordsThatAnOutageHitAreStoredTogetherAfterwards(t *testing.T) {
	t.Parallel()
	store, server := provisioned(t)
	log := runLog(t, store)
	const many = 200
	sub := &sluice.Subscription{ID: "s", Namespace: "default"}
	server.Stop(t)
	done := make(chan error, many)
	for i := range many {
		log.Record(&sluice.Attempt{
			Subscription: sub.ID, EventID: strconv.Itoa(i), Seq: uint64(i + 1), Number: 1,
			StartedAt: time.Now(), Outcome: sluice.Delivered, Verdict: sluice.Verdict{Settled: true},
		}, sub.Namespace, func(err error) { done <- err })
	}
	server.Start(t)
	limit := time.After(15 * time.Second) // one after the other they would take 50 s
	for range many {
		select {
		case err := <-done:
			require.NoError(t, err)
		case <-limit:
			require.Fail(t, "records are stored too slowly")
		}
	}
	known, err := log.Recover(t.Context(), sub)
	require.NoError(t, err)
	require.Len(t, known, many)
}
