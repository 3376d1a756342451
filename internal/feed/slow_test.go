package feed_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/feed"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// beside publishes events one after the other, each when another reader has the one before.
func beside(ctx context.Context, t *testing.T, e *feed.Engine, log *memory, count int) {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	other := follow(ctx, t, e, feed.Wish{})
	for range count {
		log.publish(1, "/a", "1")
		<-other.pieces
	}
}

// rest reads a feed until a sequence.
func rest(w *witness, r following, upTo uint64) {
	for w.last() != upTo {
		w.take(<-r.pieces)
	}
}

// S2-83, S2-88…90: a reader that takes nothing may be behind by so many frames, besides those that are sent to it at once,
// and is told how many more there were. Where the ring is smaller, by as many as fit in there.
func TestFeed_StalledReaderLearnsTheMissedCount(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, tt := range []struct{ ring, buffer, missed int }{
		{ring: 1024, buffer: 4, missed: 199 - 4 - 32},
		{ring: 1024, buffer: 166, missed: 199 - 166 - 32},
		{ring: 1024, buffer: 167, missed: 0},
		{ring: 8, buffer: 4, missed: 191}, // four are queued, and up to seven are in the ring
	} {
		log := newMemory(10)
		e := running(t, log, open{}, feed.Options{Ring: tt.ring})
		r := follow(ctx, t, e, feed.Wish{Buffer: tt.buffer})
		log.publish(1, "/a", "1")
		<-r.sending
		beside(ctx, t, e, log, 199)
		seen := witness{wanted: "/**"}
		rest(&seen, r, 200)
		require.NoError(t, seen.check(log))
		if tt.missed == 0 {
			require.Empty(t, seen.lags)
			continue
		}
		require.Len(t, seen.lags, 1)
		require.InDelta(t, tt.missed, seen.lags[0].Missed, float64(tt.ring%1024)/2, "%+v", tt) // depending on when the ring was swept
		missed := e.Gauges().Missed
		require.Equal(t, uint64(seen.lags[0].Missed), missed)
	}
}

// S2-119, S2-138: of what was there before the feed began nothing gives way, however little its reader may be behind.
func TestFeed_NeverDropsEarlierEvents(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, ring := range []int{8, 1024} {
		log := newMemory(10)
		e := running(t, log, open{}, feed.Options{Ring: ring})
		beside(ctx, t, e, log, 100)
		r := follow(ctx, t, e, feed.Wish{Buffer: 1, Since: "0"})
		seen := witness{wanted: "/**"}
		seen.take(<-r.pieces)
		rest(&seen, r, 100)
		require.Empty(t, seen.lags)
		require.NoError(t, seen.check(log))
	}
}

// C43: a feed whose reader takes nothing ends with its access, or with the server, and what is being sent is cut off.
func TestFeed_UnreadOneStillEnds(t *testing.T) {
	t.Parallel()
	for name, over := range map[string]func(g *switched, stop context.CancelFunc){
		"access is lost":  func(g *switched, _ context.CancelFunc) { g.set(func() { g.may = model.Lost }) },
		"access expires":  func(g *switched, _ context.CancelFunc) { g.mu.Lock(); defer g.mu.Unlock(); g.may = model.Lost },
		"the server ends": func(_ *switched, stop context.CancelFunc) { stop() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			gate, log := newSwitched(), newMemory(10)
			e := feed.New(log, gate, feed.Options{Heartbeat: time.Millisecond})
			running, stop := context.WithCancel(ctx)
			var all sync.WaitGroup
			defer all.Wait()
			defer stop()
			all.Go(func() { _ = e.Run(running) })
			f, err := opened(ctx, e, feed.Wish{})
			require.NoError(t, err)
			defer f.Close()
			log.publish(1, "/a", "1")
			hurried := make(chan struct{})
			var once sync.Once
			err = f.Run(ctx, func(frames []feed.Frame) error {
				if frames[0].Idle {
					return nil
				}
				once.Do(func() { over(gate, stop) })
				<-hurried
				return errors.New("cut off")
			}, func() { close(hurried) })
			require.EqualError(t, err, "cut off")
			require.NoError(t, ctx.Err(), "at once")
		})
	}
}

// dear is a gate that takes long for one caller, as the filter of a feed may.
type dear struct {
	open

	asked atomic.Int32
}

func (d *dear) Shows(c sluice.Caller, _ sluice.Verb, _ *sluice.Event, _ time.Time) model.Decision {
	if c.Principal == "dear" {
		d.asked.Add(1)
		<-time.After(5 * time.Millisecond)
	}
	return model.Pass
}

// S2-93: a feed that takes nothing, and whose filter is dear, does not hold up the others of its namespace: the hub stops
// looking for it. Its reader misses nothing for that.
func TestFeed_ExpensiveFilterDelaysNoOther(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	gate, log := &dear{}, newMemory(100)
	e := running(t, log, gate, feed.Options{Ring: 64})
	r := follow(ctx, t, e, feed.Wish{Buffer: 1000, Caller: sluice.Caller{Principal: "dear"}})
	log.publish(1, "/a", "1")
	<-r.sending
	beside(ctx, t, e, log, 299)
	require.Less(t, int(gate.asked.Load()), 100, "of 300 events")
	seen := witness{wanted: "/**"}
	rest(&seen, r, 300)
	require.Empty(t, seen.lags)
	require.NoError(t, seen.check(log))
}

// What is held back is sent before a feed ends.
func TestCoalesce_FlushesBeforeTheEnd(t *testing.T) {
	t.Parallel()
	gate, log := &dear{}, newMemory(10)
	e := feed.New(log, gate, feed.Options{})
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() { _ = e.Run(ctx) })
	coalesce := feed.Coalesce{Labels: []string{"path"}, Window: feed.MaxWindow}
	r := follow(t.Context(), t, e, feed.Wish{Coalesce: coalesce, Caller: sluice.Caller{Principal: "dear"}})
	beside(t.Context(), t, e, log, 5)
	require.Eventually(t, func() bool { return gate.asked.Load() == 5 }, patience, time.Millisecond, "it holds all events")
	stop()
	frames := <-r.pieces
	require.Len(t, frames, 1)
	require.Equal(t, uint64(5), frames[0].Seq)
	require.Equal(t, sluice.Unavailable, sluice.CodeOf(<-r.ended))
	all.Wait()
}

// What is held back is sent when its window ends, if nothing comes.
func TestCoalesce_WindowEndsByItself(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	log := newMemory(10)
	r := follow(ctx, t, running(t, log, open{}, feed.Options{Heartbeat: time.Hour}), feed.Wish{Coalesce: feed.Coalesce{Labels: []string{"path"}, Window: time.Millisecond}})
	log.publish(1, "/a", "1")
	require.Equal(t, uint64(1), (<-r.pieces)[0].Seq)
	require.NoError(t, ctx.Err(), "before the end")
}

// A feed that has nothing to send says now and then that it is there, and where to go on: behind what it does not show too.
func TestFeed_IdleOneSendsItsPlace(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	log := newMemory(10)
	r := follow(ctx, t, running(t, log, open{}, feed.Options{Heartbeat: time.Millisecond}), feed.Wish{Pattern: "/b"})
	frame := (<-r.pieces)[0]
	require.True(t, frame.Idle)
	require.Zero(t, frame.Resume)
	for seq := uint64(1); seq <= 3; seq++ {
		log.publish(1, "/a", "1")
		for frame = (<-r.pieces)[0]; frame.Resume != seq; frame = (<-r.pieces)[0] {
			require.True(t, frame.Idle)
		}
	}
}

// erasing is a gate that shows the events up to a sequence only when it is asked first, as when their paths are erased.
type erasing struct {
	open

	upTo  uint64
	mu    sync.Mutex
	asked map[uint64]bool
}

func (o *erasing) Shows(_ sluice.Caller, _ sluice.Verb, ev *sluice.Event, _ time.Time) model.Decision {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.asked[ev.Seq] && ev.Seq <= o.upTo {
		return model.Withhold
	}
	o.asked[ev.Seq] = true
	return model.Pass
}

// A heartbeat waits for frames that the hub queues just when the feed has found none: a reader that resumes at its
// place would miss them.
func TestFeed_HeartbeatNeverPassesFramesOfTheHub(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	log := newMemory(10)
	var f *feed.Feed
	var once sync.Once
	e := running(t, log, open{}, feed.Options{Heartbeat: time.Nanosecond, Lost: func(string) []sluice.Gap {
		once.Do(func() {
			log.publish(1, "/a", "1")
			require.NoError(t, f.QueueAhead(1))
		})
		return nil
	}})
	var err error
	f, err = opened(ctx, e, feed.Wish{})
	require.NoError(t, err)
	defer f.Close()
	seen := witness{wanted: "/**"}
	require.ErrorIs(t, f.Run(ctx, func(frames []feed.Frame) error {
		if seen.take(frames); seen.last() == 0 {
			return nil
		}
		return errEnough
	}, func() {}), errEnough)
	require.NoError(t, seen.check(log))
}

// A heartbeat waits for frames that are queued behind others that may no longer be sent.
func TestFeed_HeartbeatNeverPassesFlushedFrames(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	const sentAtOnce, events = 32, 40 // none of the first is left, and the others are queued
	log := newMemory(100)
	for seq := range events {
		log.publish(1, sluice.Path(fmt.Sprint("/a/", seq)), "1")
	}
	e := running(t, log, &erasing{upTo: sentAtOnce, asked: map[uint64]bool{}}, feed.Options{Heartbeat: time.Nanosecond})
	r := follow(ctx, t, e, feed.Wish{Since: "0", Coalesce: feed.Coalesce{Labels: []string{"path"}, Window: time.Millisecond}})
	seen := witness{wanted: "/**", since: sentAtOnce}
	rest(&seen, r, events)
	require.NoError(t, seen.check(log))
	cancel()
}
