package feed_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/feed"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// counted counts who follows a log.
type counted struct {
	*memory

	followers atomic.Int32
}

func (c *counted) Tail(ctx context.Context, namespace string, after uint64, each func(sluice.Event) error) error {
	c.followers.Add(1)
	return c.memory.Tail(ctx, namespace, after, each)
}

// S2-82: however many feeds a namespace has, its log is followed once.
func TestHub_ReadsTheLogOncePerNamespace(t *testing.T) {
	t.Parallel()
	log := &counted{memory: newMemory(10)}
	e := running(t, log, newSwitched(), feed.Options{})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var all []following
	for range 20 {
		all = append(all, follow(ctx, t, e, feed.Wish{Namespace: ns}))
	}
	log.publish(1, "/a", "x")
	for _, f := range all {
		require.Equal(t, uint64(1), (<-f.pieces)[0].Seq)
	}
	require.Equal(t, int32(1), log.followers.Load())
}

// S2-83: a reader may ask for a larger buffer than the ring is, and is behind by as much without missing anything.
func TestBuffer_LargerOneAllowsMoreLag(t *testing.T) {
	t.Parallel()
	const events = 400
	log := newMemory(5)
	e := running(t, log, newSwitched(), feed.Options{Ring: 8})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ahead := follow(ctx, t, e, feed.Wish{Namespace: ns, Buffer: events})
	behind := follow(ctx, t, e, feed.Wish{Namespace: ns, Buffer: events})
	missed := func(f following, upTo uint64) (count int) {
		for last := uint64(0); last < upTo; {
			for _, frame := range <-f.pieces {
				if frame.Lagged != nil {
					count += frame.Lagged.Missed
				}
				last = max(last, frame.Seq)
			}
		}
		return count
	}
	log.publish(1, "/a", "x")
	require.Zero(t, missed(ahead, 1)+missed(behind, 1)) // both have come to what is live
	for range events {
		log.publish(1, "/a", "x")
	}
	require.Zero(t, missed(ahead, events+1))
	require.Zero(t, missed(behind, events+1), "the ring had gone on without it")
}
