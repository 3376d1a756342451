package feed_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/feed"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// told collects the frames of a feed that are no heartbeats, so many of them.
func told(ctx context.Context, t *testing.T, r following, count int) (all []feed.Frame) {
	t.Helper()
	for len(all) < count {
		select {
		case frames := <-r.pieces:
			for _, f := range frames {
				if !f.Idle {
					all = append(all, f)
				}
			}
		case <-ctx.Done():
			require.Fail(t, "too few frames", "%+v", all)
		}
	}
	return all
}

// Issue 13, F5: a frame tells of lost events, once, between what was before and what comes after; of those that are found later, when
// they are found. None tells of those before the feed began, that have not come yet, or of paths that it does not show.
func TestFeed_TellsOfLostEvents(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var lost atomic.Pointer[[]sluice.Gap]
	lost.Store(&[]sluice.Gap{{From: 1, To: 2, Events: 2}, {From: 4, To: 6, Events: 2}, {From: 7, To: 7, Path: "/b", Events: 1}, {From: 20, To: 21, Events: 2}})
	log := newMemory(10)
	e := running(t, log, open{}, feed.Options{Heartbeat: time.Millisecond, Lost: func(string) []sluice.Gap { return *lost.Load() }})
	for _, distance := range []uint64{1, 2, 4, 1} { // 1, 3, 7, 8
		log.publish(distance, "/a", "1")
	}
	r := follow(ctx, t, e, feed.Wish{Pattern: "/a", Since: "2"})
	frames := told(ctx, t, r, 4)
	require.Equal(t, []uint64{3, 0, 7, 8}, []uint64{frames[0].Seq, frames[1].Seq, frames[2].Seq, frames[3].Seq})
	require.Equal(t, &feed.Lagged{Missed: 2, Oldest: 7, Head: 8, Unreadable: &sluice.Gap{From: 4, To: 6, Events: 2}}, frames[1].Lagged)

	found := append([]sluice.Gap{{From: 1, To: 3, Path: "/a", Events: 2}}, *lost.Load()...)
	lost.Store(&found)
	frames = told(ctx, t, r, 1)
	require.Equal(t, &sluice.Gap{From: 3, To: 3, Path: "/a", Events: 1}, frames[0].Lagged.Unreadable, "the part behind the beginning")
	log.publish(1, "/a", "1")
	frames = told(ctx, t, r, 1)
	require.Equal(t, uint64(9), frames[0].Seq, "nothing is told twice")
	require.Zero(t, e.Gauges().Missed, "no reader is too slow")
}

// Lost events of a path that the reader may not see are not told.
func TestFeed_HidesLostEventsThatAreForbidden(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	log := newMemory(10)
	e := running(t, log, onlyA{}, feed.Options{Lost: func(string) []sluice.Gap { return []sluice.Gap{{From: 1, To: 1, Path: "/b", Events: 1}} }})
	log.publish(2, "/a", "1")
	frames := told(ctx, t, follow(ctx, t, e, feed.Wish{Since: "0"}), 1)
	require.Equal(t, uint64(2), frames[0].Seq)
}

// onlyA is a gate that lets out what lies on /a.
type onlyA struct{ open }

func (onlyA) May(_ sluice.Caller, _ sluice.Verb, wants sluice.Object, _ time.Time) model.Decision {
	if wants.Pattern == "/b" {
		return model.Lost
	}
	return model.Pass
}
