package natsstore_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Whoever follows records hears of each as it is, that these were all, and of every change; after a restart of NATS of all
// of them again.
func TestWhoFollowsRecordsHearsOfAllOfThemAgain(t *testing.T) {
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

// The last event of each path that a pattern matches, what was the last before a sequence, and what is stored from now on.
func TestPathsAreLookedAtAndFollowed(t *testing.T) {
	t.Parallel()
	store, server := provisioned(t)
	publish(t, store, "default", "/a/1", "/a/2", "/a/1", "/b/1", "/a/1/deep")
	ends := map[sluice.Path]uint64{}
	require.NoError(t, store.PathEnds(t.Context(), "default", "/a/*", func(path sluice.Path, last uint64) { ends[path] = last }))
	require.Equal(t, map[sluice.Path]uint64{"/a/1": 3, "/a/2": 2}, ends)
	for upTo, want := range map[uint64]uint64{1: 1, 2: 1, 3: 3, 5: 3} {
		got, err := store.PathBefore(t.Context(), "default", "/a/1", upTo)
		require.NoError(t, err)
		require.Equal(t, want, got, upTo)
	}
	none, err := store.PathBefore(t.Context(), "default", "/b/1", 3)
	require.NoError(t, err)
	require.Zero(t, none)

	heard, ended := make(chan string, 16), make(chan error, 1)
	go func() {
		ended <- store.FollowPaths(t.Context(), "default", func(path sluice.Path, seq uint64) { heard <- fmt.Sprint(path, seq) })
	}()
	require.Equal(t, "0", <-heard, "first of all, that something may have been missed")
	publish(t, store, "default", "/c")
	require.Equal(t, "/c6", <-heard)
	server.Restart(t)
	require.Error(t, <-ended, "whoever follows begins again, and looks at what may have been missed")
}
