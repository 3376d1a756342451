package streamsub

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/internal/testkit/storetest"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// A namespace that is deleted and made anew so quickly that its follower never sees it missing begins anew: what is stored
// there is news, though its sequences have been seen before.
func TestLog_RecreatedOneIsFollowedFromItsBeginning(t *testing.T) {
	t.Parallel()
	store := storetest.Connect(t, natsstore.Options{Conn: natstest.New(t)})
	require.NoError(t, store.Provision(t.Context()))
	publish := func(n int) {
		t.Helper()
		for range n {
			_, err := store.Log.Publish(t.Context(), "n", []sluice.Event{{Namespace: "n", Path: "/a", ID: uuid.NewString(), Type: "t", Source: "/x", Data: []byte("1")}})
			require.NoError(t, err)
		}
	}
	end := func(tails *tails) uint64 {
		tails.mu.Lock()
		defer tails.mu.Unlock()
		return tails.tailOf("/a")
	}
	_, _, err := store.Namespaces().Put(t.Context(), sluice.Namespace{Name: "n"})
	require.NoError(t, err)
	publish(5)
	tails, news := newTails(), make(chan sluice.Path, 64)
	ctx, cancel := context.WithCancel(t.Context())
	var following sync.WaitGroup
	following.Go(func() {
		tails.follow(ctx, store.Log, "n", func(path sluice.Path) { news <- path }, slog.New(slog.DiscardHandler))
	})
	defer following.Wait()
	defer cancel()
	require.Empty(t, <-news, "all is known")
	require.Equal(t, uint64(5), end(tails))
	require.NoError(t, store.Namespaces().Delete(t.Context(), "n"))
	_, _, err = store.Namespaces().Put(t.Context(), sluice.Namespace{Name: "n"})
	require.NoError(t, err)
	publish(1)
	require.Eventually(t, func() bool { return end(tails) == 1 }, time.Minute, 2*time.Millisecond)
	publish(1)
	require.Eventually(t, func() bool { return end(tails) == 2 }, time.Minute, 2*time.Millisecond)
}
