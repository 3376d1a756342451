package records_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/internal/wake"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// crowdedStreams counts how many streams are asked about at once.
type crowdedStreams struct {
	wake.Streams

	now, most *atomic.Int64
}

// Tail returns what is known of a stream.
func (s crowdedStreams) Tail(ctx context.Context, namespace string, path sluice.Path) (wake.Tail, error) {
	now := s.now.Add(1)
	defer s.now.Add(-1)
	for most := s.most.Load(); now > most && !s.most.CompareAndSwap(most, now); most = s.most.Load() {
	}
	return s.Streams.Tail(ctx, namespace, path)
}

// A callback about a thousand streams looks them up neither one after the other nor all at once.
func TestCallback_LooksUpManyStreamsTogether(t *testing.T) {
	t.Parallel()
	store := storeOn(t, natstest.New(t))
	s := openSite(t, store, "n", sluice.Policy{}, 1)
	notices := s.notices(t, "")
	var now, most atomic.Int64
	node, err := s.node(store, true, func(ports *wake.Deps, _ *wake.Options) {
		ports.Streams = crowdedStreams{ports.Streams, &now, &most}
	})
	require.NoError(t, err)
	defer node.stop()
	_, err = s.append("/a/1")
	require.NoError(t, err)
	n := <-notices
	var paths []string
	for i := range wake.MaxStreams - 1 {
		paths = append(paths, fmt.Sprintf("/b/%d", i))
	}
	body, err := json.Marshal(map[string]any{"epoch": n.Epoch, "wake_id": n.WakeID, "subscribe": paths})
	require.NoError(t, err)
	answer, err := node.engine.Call(t.Context(), "n", n.ConsumerID, n.Token, body)
	require.NoError(t, err)
	require.Len(t, answer.Streams, wake.MaxStreams)
	require.Greater(t, most.Load(), int64(1))
	require.Less(t, most.Load(), int64(100))
}
