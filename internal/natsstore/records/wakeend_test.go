package records_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/natsstore/records"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/internal/wake"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// After a log lost its last messages, as in a power cut, consumers that are beyond its end are woken by new ones.
func TestWake_LogThatLostItsEndWakes(t *testing.T) {
	t.Parallel()
	s := openSite(t, storeOn(t, natstest.New(t)), "shorter", sluice.Policy{}, 1)
	var posts atomic.Int64
	s.post = func(wake.Letter) (int, string) {
		posts.Add(1)
		return 200, `{"done":true}`
	}
	node, err := s.node(s.store, true, nil)
	require.NoError(t, err)
	paths := []sluice.Path{"/a/idle", "/a/removed"}
	for _, path := range paths {
		_, err := s.append(path)
		require.NoError(t, err)
		require.True(t, soon(time.Minute, func() bool { c := s.record(path); return c.Epoch == 1 && c.State == sluice.WakeIdle }))
	}
	node.stop()
	stored := records.NewWakes(s.store.Store)
	for _, path := range paths { // messages up to 40 were acknowledged, and are gone
		en, err := stored.Get(t.Context(), s.sub.ID, path)
		require.NoError(t, err)
		en.Consumer.Streams[0].Acked = 40
		if path == "/a/removed" {
			en.Consumer.State, en.Consumer.Since = sluice.WakeRemoved, 40
		}
		_, err = stored.Put(t.Context(), s.sub.ID, en.Consumer, en.Revision)
		require.NoError(t, err)
	}
	node, err = s.node(s.store, true, nil)
	require.NoError(t, err)
	defer node.stop()
	for _, path := range paths {
		require.True(t, soon(time.Minute, func() bool { return s.record(path).Streams[0].Acked < 40 }), "it begins anew")
	}
	for _, path := range paths {
		seq, err := s.append(path)
		require.NoError(t, err)
		require.True(t, soon(time.Minute, func() bool { c := s.record(path); return c.Epoch >= 2 && c.Streams[0].Acked == seq }), path)
	}
	require.GreaterOrEqual(t, posts.Load(), int64(4), "messages may be repeated")
}
