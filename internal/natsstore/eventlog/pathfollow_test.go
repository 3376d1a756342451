package eventlog_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// The last event of each path that a pattern matches, what was the last before a sequence, and what is stored from now on.
func TestPaths_AreListedAndFollowed(t *testing.T) {
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
	require.Error(t, <-ended, "the follower begins again, and looks at what may have been missed")
}
