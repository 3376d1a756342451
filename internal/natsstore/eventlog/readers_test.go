package eventlog_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// heard is what the followers of a log heard, by their names.
type heard struct {
	mu  sync.Mutex
	all map[string][]uint64
}

func (h *heard) add(name string, seq uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all[name] = append(h.all[name], seq)
}

func (h *heard) last(name string) uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	if got := h.all[name]; len(got) > 0 {
		return got[len(got)-1]
	}
	return 0
}

// Feeds, watches, exports, wakes, stream subscriptions and long polls of one process read a log once, together.
func TestLog_OneConsumerForAllFollowers(t *testing.T) {
	t.Parallel()
	store, server := provisioned(t)
	publish := func(n int) (last uint64) {
		for i := range n {
			got, err := store.Publish(t.Context(), "default", []sluice.Event{{
				Namespace: "default", Path: "/a", ID: fmt.Sprint(time.Now().UnixNano(), i), Type: "t", Source: "/x", Data: []byte("1"),
			}})
			require.NoError(t, err)
			last = got[0].Seq
		}
		return last
	}
	before := publish(3)
	h := &heard{all: map[string][]uint64{}}
	event := func(name string) func(sluice.Event) error {
		return func(ev sluice.Event) error { h.add(name, ev.Seq); return nil }
	}
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for name, follow := range map[string]func() error{
		"feed":   func() error { return store.FeedTail(ctx, "default", before, event("feed")) },
		"behind": func() error { return store.FeedTail(ctx, "default", 0, event("behind")) },
		"export": func() error { return store.TailEvents(ctx, "default", before, event("export")) },
		"wakes": func() error {
			return store.FollowPaths(ctx, "default", func(_ sluice.Path, seq uint64) { h.add("wakes", seq) })
		},
		"tails": func() error {
			return store.FollowTails(ctx, "default", func(_ sluice.Path, seq uint64) { h.add("tails", seq) })
		},
	} {
		all.Go(func() {
			if err := follow(); ctx.Err() == nil {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	news := make(ear, 100)
	end, err := store.ListenPath(t.Context(), "default", "/a", news.hear)
	require.NoError(t, err)
	t.Cleanup(end)
	t.Cleanup(func() { stop(); all.Wait() })
	require.Eventually(t, func() bool { return h.last("behind") == before && h.last("tails") == before && h.isThere("wakes") }, time.Minute, time.Millisecond)

	last := publish(2)
	for _, name := range []string{"feed", "behind", "export", "wakes", "tails"} {
		require.Eventually(t, func() bool { return h.last(name) == last }, time.Minute, time.Millisecond, name)
	}
	require.NotEmpty(t, <-news)
	js := natstest.JetStream(t, server)
	consumers := func() int {
		stream, err := js.Stream(t.Context(), streams.Names{}.EventsStream("default"))
		require.NoError(t, err)
		return stream.CachedInfo().State.Consumers
	}
	require.Eventually(t, func() bool { return consumers() == 1 }, time.Minute, time.Millisecond, "one reader for six followers")

	h.mu.Lock()
	require.Equal(t, []uint64{last - 1, last}, h.all["feed"])
	require.Equal(t, []uint64{last - 4, last - 3, last - 2, last - 1, last}, h.all["behind"])
	h.mu.Unlock()
	stop()
	all.Wait()
	end()
}

func (h *heard) isThere(name string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.all[name]) > 0
}
