package records_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/durable"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/internal/wake"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Events on the path of an expired stream wake its consumer, which begins behind the expiry (S1-136).
func TestExpiry_LaterEventsWake(t *testing.T) {
	t.Parallel()
	s := openSite(t, storeOn(t, natstest.New(t)), "expiry", sluice.Policy{}, 1)
	var posts atomic.Int64
	s.post = func(wake.Letter) (int, string) {
		posts.Add(1)
		return 200, `{"done":true}`
	}
	node, err := s.node(s.store, true, nil)
	require.NoError(t, err)
	defer node.stop()
	const path = "/a/1"
	key, ttl := durable.Key{Namespace: s.sub.Namespace, Path: path}, time.Second
	_, _, err = s.streams.Engine.Create(t.Context(), key, durable.Create{ContentType: durable.JSONType, Lifetime: durable.Lifetime{TTL: &ttl}})
	require.NoError(t, err)
	wakes := func() {
		t.Helper()
		before := posts.Load()
		seq, err := s.append(path)
		require.NoError(t, err)
		require.True(t, soon(time.Minute, func() bool {
			c := s.record(path)
			return posts.Load() > before && c.State == sluice.WakeIdle && c.Streams[0].Acked == seq
		}))
	}
	wakes()
	require.True(t, soon(time.Minute, func() bool {
		_, err := s.streams.Engine.Head(t.Context(), key)
		return sluice.CodeOf(err) == sluice.NotFound
	}))
	for range 3 {
		wakes()
	}
}
