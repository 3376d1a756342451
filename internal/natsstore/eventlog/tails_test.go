package eventlog_test

import (
	"context"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/natsstore/eventlog"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// told is what a follower was told.
type told struct {
	mu    sync.Mutex
	tails map[sluice.Path]uint64
	at    uint64
}

func (f *told) tell(path sluice.Path, seq uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if path == "" {
		f.at = seq
		return
	}
	f.tails[path] = seq
}

func (f *told) is(at uint64, tails map[sluice.Path]uint64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.at == at && maps.Equal(f.tails, tails)
}

func TestTails_AreGivenAndFollowed(t *testing.T) {
	t.Parallel()
	store, _ := provisioned(t)
	publish := func(path sluice.Path) {
		_, err := store.Publish(t.Context(), "default", []sluice.Event{{Namespace: "default", Path: path, ID: string(path) + time.Now().String(), Type: "t", Source: "/x", Data: []byte("1")}})
		require.NoError(t, err)
	}
	follow := func() *told {
		f := &told{tails: map[sluice.Path]uint64{}}
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() { _ = store.FollowTails(ctx, "default", f.tell) }) // it ends with ctx
		t.Cleanup(func() { cancel(); all.Wait() })
		return f
	}
	empty := follow()
	require.Eventually(t, func() bool { return empty.is(0, map[sluice.Path]uint64{}) }, time.Minute, time.Millisecond)
	publish("/a")
	publish("/b/c")
	publish("/a")
	want := map[sluice.Path]uint64{"/a": 3, "/b/c": 2}
	require.Eventually(t, func() bool { return empty.is(3, want) }, time.Minute, time.Millisecond, "live")
	late := follow()
	require.Eventually(t, func() bool { return late.is(3, want) }, time.Minute, time.Millisecond, "later")
	_, err := store.CommitPaths(t.Context(), "default", eventlog.PathCommit{Fence: eventlog.PathFence{Path: "/r"}, Puts: []eventlog.PathPut{{PathFence: eventlog.PathFence{Path: "/r"}, Data: []byte("{}"), For: eventlog.RecordForever}}})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return late.is(4, want) }, time.Minute, time.Millisecond, "a record is no event, but part of the log")

	err = store.FollowTails(t.Context(), "nowhere", late.tell)
	requireCode(t, sluice.NotFound, err)
}
