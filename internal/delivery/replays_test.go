package delivery_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/delivery"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/natsstore/deliverystore"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// never owns nothing.
type never struct{ always }

func (never) Owns(string) bool { return false }

// toldReplays tells of replays, and says when it has told of the first.
type toldReplays struct {
	deliverystore.Replays

	first func()
}

func (r toldReplays) Watch(ctx context.Context, change func(sluice.Replay, bool)) error {
	return r.Replays.Watch(ctx, func(e natsstore.Entry[sluice.Replay]) {
		if e.Change != natsstore.CaughtUp {
			change(e.Value, e.Change == natsstore.Removed)
			r.first()
		}
	})
}

// A replay may end while its subscription has no owner: the lanes go nevertheless.
func TestReplays_LanesOfUnservedOnesAreDeleted(t *testing.T) {
	t.Parallel()
	store := connect(t)
	w := newWorld(t, store, "n", sluice.Policy{})
	rep := sluice.Replay{ID: "r", Subscription: w.sub.ID, Namespace: "n", State: sluice.ReplayRunning, Began: w.sub.Began(), CreatedAt: time.Now()}
	require.NoError(t, w.deliveries.Replays().Add(t.Context(), rep))
	_, err := w.deliveries.Park(t.Context(), w.sub, sluice.Parked{Lane: streams.ReplayLanes(rep.ID) + ".p.a", Path: "/a", FromSeq: 1}, 0)
	require.NoError(t, err)
	parked := func() int {
		all, err := w.deliveries.Replays().Parked(t.Context(), w.sub, streams.ReplayLanes(rep.ID))
		require.NoError(t, err)
		return len(all)
	}
	require.Equal(t, 1, parked())

	told := make(chan struct{})
	watch := toldReplays{w.deliveries.Replays(), sync.OnceFunc(func() { close(told) })}
	engine := delivery.New(w, never{}, delivery.Deps{Replays: w.deliveries.Replays()}, delivery.Options{Replays: watch, LookEvery: 10 * time.Millisecond})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- engine.Run(ctx) }()
	<-told
	require.NoError(t, w.deliveries.Replays().Progress(t.Context(), rep, func(rep *sluice.Replay) { rep.State = sluice.ReplayCancelled }))
	eventually(t, "its lanes are gone", func() bool { return parked() == 0 })
	cancel()
	require.NoError(t, <-ended)
}
