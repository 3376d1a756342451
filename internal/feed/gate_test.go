package feed_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/feed"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// switched is a gate that answers as it was told last.
type switched struct {
	mu      sync.Mutex
	shows   map[sluice.Path]model.Decision // of others: Pass
	may     model.Decision
	changed chan struct{}
}

func newSwitched() *switched {
	return &switched{shows: map[sluice.Path]model.Decision{}, may: model.Pass, changed: make(chan struct{})}
}

func (g *switched) set(change func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	change()
	close(g.changed)
	g.changed = make(chan struct{})
}

func (g *switched) Shows(_ sluice.Caller, _ sluice.Verb, ev *sluice.Event, _ time.Time) model.Decision {
	g.mu.Lock()
	defer g.mu.Unlock()
	if d, ok := g.shows[ev.Path]; ok {
		return d
	}
	return model.Pass
}

func (g *switched) May(sluice.Caller, sluice.Verb, sluice.Object, time.Time) model.Decision {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.may
}

func (g *switched) Applied() (uint64, <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return 0, g.changed
}

// following is a feed that is read a piece at a time.
type following struct {
	pieces  chan []feed.Frame
	sending chan struct{} // closed when there was the first piece
	ended   chan error
}

func follow(ctx context.Context, tb testing.TB, e *feed.Engine, w feed.Wish) following {
	tb.Helper()
	f, err := opened(ctx, e, w)
	require.NoError(tb, err)
	r := following{make(chan []feed.Frame), make(chan struct{}), make(chan error, 1)}
	first := sync.OnceFunc(func() { close(r.sending) })
	var all sync.WaitGroup
	tb.Cleanup(all.Wait)
	all.Go(func() {
		defer f.Close()
		r.ended <- f.Run(ctx, func(frames []feed.Frame) error {
			first()
			select {
			case r.pieces <- append([]feed.Frame{}, frames...):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}, func() {})
	})
	return r
}

// C43, S0-57…64: what is queued is asked for again when it leaves, and what may not leave is neither sent nor counted.
func TestGate_IsAskedAtEveryFrame(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	gate, log := newSwitched(), newMemory(10)
	gate.shows["/hidden"] = model.Withhold
	gate.shows["/foreign"] = model.Lost // of this event only
	e := running(t, log, gate, feed.Options{})
	r := follow(ctx, t, e, feed.Wish{})
	log.publish(1, "/a", "1")
	log.publish(1, "/hidden", "2")
	log.publish(1, "/foreign", "3")
	log.publish(1, "/b", "4")
	var seen []uint64
	for len(seen) < 2 {
		for _, f := range <-r.pieces {
			seen = append(seen, f.Seq)
		}
	}
	require.Equal(t, []uint64{1, 4}, seen)
}

// What was looked at while the reader took nothing is asked for again.
func TestGate_IsAskedAgainForQueuedFrames(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	gate, log := newSwitched(), newMemory(10)
	e := running(t, log, gate, feed.Options{Ring: 4, MaxBuffer: 100})
	r, other := follow(ctx, t, e, feed.Wish{Buffer: 100}), follow(ctx, t, e, feed.Wish{Buffer: 100})
	log.publish(1, "/a", "1")
	<-r.sending // it does not take it yet
	read := func(r following, upTo uint64) (seen []uint64) {
		for len(seen) == 0 || seen[len(seen)-1] != upTo {
			for _, f := range <-r.pieces {
				require.Nil(t, f.Lagged)
				seen = append(seen, f.Seq)
			}
		}
		return seen
	}
	read(other, 1)
	for seq := uint64(2); seq <= 30; seq++ {
		log.publish(1, "/late", "2")
		read(other, seq)
	}
	gate.set(func() { gate.shows["/late"] = model.Withhold })
	log.publish(1, "/end", "3")
	require.Equal(t, []uint64{1, 31}, read(r, 31))
}

// C43: what was held back to be coalesced is asked for again when it leaves: its path may have been erased meanwhile.
func TestGate_IsAskedAgainForHeldFrames(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	gate, log := newSwitched(), newMemory(10)
	e := running(t, log, gate, feed.Options{Heartbeat: time.Hour})
	r := follow(ctx, t, e, feed.Wish{Coalesce: feed.Coalesce{Labels: []string{"path"}, Window: feed.MaxWindow}})
	other := follow(ctx, t, e, feed.Wish{})
	log.publish(1, "/erased", "1")
	log.publish(1, "/kept", "2")
	for last := uint64(0); last < 2; {
		for _, f := range <-other.pieces {
			last = f.Seq
		}
	}
	gate.set(func() { gate.shows["/erased"] = model.Withhold })
	frames := <-r.pieces
	require.Len(t, frames, 1)
	require.Equal(t, uint64(2), frames[0].Seq)
}

// What is large is not sent many at once: the gate is asked for each before it is sent, and a reader may take long.
func TestGate_IsAskedForEachLargeFrame(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	gate, log := newSwitched(), newMemory(10)
	for range 9 {
		log.publish(1, "/a", strings.Repeat("x", 64<<10))
	}
	e := running(t, log, gate, feed.Options{})
	r := follow(ctx, t, e, feed.Wish{Since: "0"})
	<-r.sending
	gate.set(func() { gate.shows["/a"] = model.Withhold })
	log.publish(1, "/b", "2")
	require.Equal(t, uint64(1), (<-r.pieces)[0].Seq)
	require.Equal(t, uint64(10), (<-r.pieces)[0].Seq, "the others were erased")
}

// Access that is lost ends the feed at once, whether anything comes or not.
func TestFeed_EndsWithItsAccess(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for decision, code := range map[model.Decision]sluice.Code{model.Lost: sluice.Forbidden, model.Undecided: sluice.Unavailable} {
		gate, log := newSwitched(), newMemory(10)
		e := running(t, log, gate, feed.Options{})
		r := follow(ctx, t, e, feed.Wish{})
		log.publish(1, "/a", "1")
		<-r.pieces
		gate.set(func() { gate.may = decision })
		require.Equal(t, code, sluice.CodeOf(<-r.ended))
	}
	gate := newSwitched()
	gate.may = model.Lost
	_, err := opened(ctx, running(t, newMemory(1), gate, feed.Options{}), feed.Wish{})
	require.Equal(t, sluice.Forbidden, sluice.CodeOf(err))
}

// S2-138, C11: what is no longer kept is refused before there is a feed, and ends one that needs it.
func TestFeed_RefusesExpiredPlaces(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	log := newMemory(1)
	for range 9 {
		log.publish(1, "/a", "1")
	}
	e := running(t, log, open{}, feed.Options{})
	r := follow(ctx, t, e, feed.Wish{Since: "0"})
	require.Equal(t, uint64(1), (<-r.pieces)[0].Seq)
	log.lose(8)
	_, err := opened(ctx, e, feed.Wish{Since: "4"})
	got, ok := errors.AsType[*sluice.Error](err)
	require.True(t, ok)
	require.Equal(t, sluice.WindowExceeded, got.Code)
	require.Equal(t, map[string]any{"oldest_available_seq": uint64(9), "current_seq": uint64(9)}, got.Details)
}

// S2-119: a reader from the beginning gets all that is kept, though the first events leave the log before they are read.
func TestFeed_BeginningMayLeaveTheLog(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	log := newMemory(1)
	for range 9 {
		log.publish(1, "/a", "1")
	}
	e := running(t, log, open{}, feed.Options{})
	f, err := opened(ctx, e, feed.Wish{Since: "-1"})
	require.NoError(t, err)
	defer f.Close()
	require.Zero(t, f.Since())
	log.lose(4)
	var seen []uint64
	done := errors.New("that is all")
	err = f.Run(ctx, func(frames []feed.Frame) error {
		for _, frame := range frames {
			if seen = append(seen, frame.Seq); frame.Seq == 9 {
				return done
			}
		}
		return nil
	}, func() {})
	require.ErrorIs(t, err, done)
	require.Equal(t, []uint64{5, 6, 7, 8, 9}, seen)
}

// S2-93, S2-134: a reader that takes nothing holds up neither the log nor other readers.
func TestFeed_SlowReaderDelaysNoOther(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	log := newMemory(10)
	e := running(t, log, open{}, feed.Options{Ring: 4})
	for range 3 {
		follow(ctx, t, e, feed.Wish{}) // and never reads
	}
	r := follow(ctx, t, e, feed.Wish{Buffer: 1000})
	count := 0
	for n := range 500 {
		log.publish(1, "/a", strconv.Itoa(n))
		for _, f := range <-r.pieces {
			require.Nil(t, f.Lagged)
			count++
		}
	}
	require.Equal(t, 500, count)
	cancel()
}

// A server that ends says so to its readers, and a ring without readers is removed.
func TestEngine_EndsItsFeeds(t *testing.T) {
	t.Parallel()
	log := newMemory(10)
	e := feed.New(log, open{}, feed.Options{Linger: time.Millisecond})
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() { _ = e.Run(ctx) })
	for range 3 { // a hub each, or the same
		f, err := opened(t.Context(), e, feed.Wish{})
		require.NoError(t, err)
		f.Close()
		count := e.Gauges().Feeds
		require.Zero(t, count)
	}
	r := follow(t.Context(), t, e, feed.Wish{})
	cancel()
	require.Equal(t, sluice.Unavailable, sluice.CodeOf(<-r.ended))
	all.Wait()
	_, err := e.Open(t.Context(), feed.Wish{Namespace: ns})
	require.Equal(t, sluice.Unavailable, sluice.CodeOf(err))
}

// A feed goes on after trouble with the log, and ends if what came meanwhile is gone, or the log is another one.
func TestFeed_OutlivesTroubleWithTheLog(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		meanwhile func(*memory)
		code      sluice.Code // "": it goes on
	}{
		"nothing":               {func(*memory) {}, ""},
		"it lost some":          {func(m *memory) { m.lose(5) }, sluice.WindowExceeded},
		"it lost what was seen": {func(m *memory) { m.lose(3) }, ""},
		"it is another": {func(m *memory) {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.events, m.last = nil, 0
		}, sluice.Unavailable},
		"it is another, which is as long": {func(m *memory) {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.made = m.made.Add(time.Hour)
		}, sluice.WindowExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			outlive(t, tt.meanwhile, tt.code)
		})
	}
}

// outlive has a log be followed again after something happened to it; without a code the feed goes on.
func outlive(t *testing.T, meanwhile func(*memory), code sluice.Code) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	log := newMemory(10)
	r := follow(ctx, t, running(t, log, open{}, feed.Options{}), feed.Wish{})
	for seq := uint64(1); seq <= 3; seq++ {
		log.publish(1, "/a", "1")
		require.Equal(t, seq, (<-r.pieces)[0].Seq)
	}
	log.breakDown(true)
	require.Eventually(t, log.isNoticed, patience, time.Millisecond)
	for range 4 {
		log.publish(1, "/a", "1")
	}
	meanwhile(log)
	log.breakDown(false)
	if code != "" {
		require.Equal(t, code, sluice.CodeOf(<-r.ended))
		return
	}
	for seq := uint64(4); seq <= 7; {
		for _, f := range <-r.pieces {
			require.Equal(t, seq, f.Seq)
			seq++
		}
	}
}

// Access may be lost between the opening of a feed and its first read: no change is told of that it could hear.
func TestRun_AsksAgainOnceItIsKnown(t *testing.T) { // C43, S0-57…64
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	gate := newSwitched()
	e := running(t, newMemory(10), gate, feed.Options{})
	f, err := opened(ctx, e, feed.Wish{})
	require.NoError(t, err)
	defer f.Close()
	gate.mu.Lock()
	gate.may = model.Lost
	gate.mu.Unlock()
	err = f.Run(ctx, func([]feed.Frame) error { return errors.New("nothing is sent") }, func() {})
	require.Equal(t, sluice.Forbidden, sluice.CodeOf(err), "%v", err)
}

// A feed on which nothing comes ends when its reader has lost all that it asks for.
func TestRun_IdleFeedEndsWithAccess(t *testing.T) { // C43, S0-57…64
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	gate, log := newSwitched(), newMemory(10)
	e := running(t, log, gate, feed.Options{})
	r := follow(ctx, t, e, feed.Wish{})
	log.publish(1, "/a", "1")
	require.Len(t, <-r.pieces, 1)
	gate.set(func() { gate.may = model.Lost })
	require.Equal(t, sluice.Forbidden, sluice.CodeOf(<-r.ended))
}
