package natsstore_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/natsstore"
)

// A follower of records gets each as it is, that these were all, and of every change; after a restart of NATS of all
// of them again.
func TestFollow_RepeatsAllRecordsAfterARestart(t *testing.T) {
	t.Parallel()
	store, server := provisioned(t)
	b := records(store)
	one, err := b.Put(t.Context(), "one", record{1}, 0)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	told := make(chan string, 16)
	var following sync.WaitGroup
	following.Go(func() {
		_ = b.Follow(ctx, ">", func(e natsstore.Entry[record]) { told <- fmt.Sprint(e.Change, e.Key, e.Value.N) })
	})
	defer following.Wait()
	defer cancel()
	require.Equal(t, "0one1", <-told)
	require.Equal(t, fmt.Sprint(natsstore.CaughtUp, "", 0), <-told)
	_, err = b.Put(t.Context(), "one", record{2}, one)
	require.NoError(t, err)
	require.Equal(t, "0one2", <-told)
	require.NoError(t, b.Delete(t.Context(), "one", 0))
	require.Equal(t, fmt.Sprint(natsstore.Removed, "one", 0), <-told)
	_, err = b.Put(t.Context(), "two", record{3}, 0)
	require.NoError(t, err)
	require.Equal(t, "0two3", <-told)
	server.Restart(t)
	var again []string
	for len(again) == 0 || again[len(again)-1] != fmt.Sprint(natsstore.CaughtUp, "", 0) {
		again = append(again, <-told)
	}
	require.Contains(t, again, "0two3")
	require.NotContains(t, again, "0one2")
}
