package feed_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sluice-io/sluice/internal/feed"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

const (
	ns       = "n"
	patience = time.Minute
)

// memory is a log whose end is only in memory, whose pages are small, and whose readers have trouble.
type memory struct {
	page int // events of a page

	mu      sync.Mutex
	events  []sluice.Event
	last    uint64
	changed chan struct{}
	trouble int // every how manieth event breaks who follows; 0: none
	down    bool
	noticed bool // by who follows
	gone    uint64
	made    time.Time
}

func newMemory(page int) *memory { return &memory{page: page, changed: make(chan struct{})} }

// publish stores an event at a distance behind the last one.
func (m *memory) publish(distance uint64, path sluice.Path, data string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last += distance
	m.events = append(m.events, sluice.Event{Namespace: ns, Path: path, Seq: m.last, ID: strconv.FormatUint(m.last, 10), Type: "t", Data: []byte(data)})
	close(m.changed)
	m.changed = make(chan struct{})
}

// lose forgets everything up to a sequence.
func (m *memory) lose(upTo uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.gone = upTo
}

// breakDown says whether the log can be followed.
func (m *memory) breakDown(down bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.down, m.noticed = down, false
	close(m.changed)
	m.changed = make(chan struct{})
}

func (m *memory) isDown() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.noticed = m.down
	return m.down
}

// isNoticed reports whether a follower of the log knows that it is down.
func (m *memory) isNoticed() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.noticed
}

func (m *memory) behind(after uint64, most int) ([]sluice.Event, <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var found []sluice.Event
	for i := range m.events {
		if seq := m.events[i].Seq; seq > after && seq > m.gone && len(found) < most {
			found = append(found, m.events[i])
		}
	}
	return found, m.changed
}

func (m *memory) ends() (first, last uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.gone + 1, m.last
}

func (m *memory) Ends(context.Context, string) (first, last uint64, err error) {
	first, last = m.ends()
	return first, last, nil
}

func (m *memory) Incarnation(context.Context, string) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.made.String(), nil
}

func (m *memory) Page(_ context.Context, _ string, pattern sluice.Pattern, after, upTo uint64) ([]sluice.Event, uint64, error) {
	first, last := m.ends()
	if after+1 < first {
		return nil, 0, sluice.Errorf(sluice.WindowExceeded, "gone").With("oldest_available_seq", first).With("current_seq", last)
	}
	events, _ := m.behind(after, m.page)
	kept := events[:0]
	for _, ev := range events {
		after = ev.Seq
		if pattern.Match(ev.Path) {
			kept = append(kept, ev)
		}
	}
	if len(events) < m.page {
		after = max(after, upTo)
	}
	return kept, after, nil
}

func (m *memory) Tail(ctx context.Context, _ string, after uint64, each func(sluice.Event) error) error {
	for n := 1; ; n++ {
		if m.isDown() {
			return errors.New("down")
		}
		events, changed := m.behind(after, 1)
		for _, ev := range events {
			if err := each(ev); err != nil {
				return err
			}
			after = ev.Seq
		}
		if m.trouble > 0 && n%m.trouble == 0 {
			return errors.New("trouble")
		}
		if len(events) > 0 {
			continue
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (m *memory) Place(_ context.Context, _, cursor string) (uint64, error) {
	if cursor == "-1" {
		first, _ := m.ends()
		return first - 1, nil
	}
	after, err := strconv.ParseUint(cursor, 10, 64)
	if first, last := m.ends(); err == nil && after+1 < first {
		return 0, sluice.Errorf(sluice.WindowExceeded, "gone").With("oldest_available_seq", first).With("current_seq", last)
	}
	return after, err
}

// open is a gate that lets everything out.
type open struct{}

func (open) Shows(sluice.Caller, sluice.Verb, *sluice.Event, time.Time) model.Decision {
	return model.Pass
}

func (open) May(sluice.Caller, sluice.Verb, sluice.Object, time.Time) model.Decision {
	return model.Pass
}
func (open) Applied() (uint64, <-chan struct{}) { return 0, nil }

// running starts an engine, which ends with the test.
func running(tb testing.TB, log feed.Log, gate feed.Gate, opts feed.Options) *feed.Engine {
	tb.Helper()
	e := feed.New(log, gate, opts)
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() { _ = e.Run(ctx) })
	tb.Cleanup(func() {
		cancel()
		all.Wait()
	})
	return e
}

// opened opens a feed as soon as the engine runs.
func opened(ctx context.Context, e *feed.Engine, w feed.Wish) (*feed.Feed, error) {
	w.Namespace = ns
	for {
		f, err := e.Open(ctx, w)
		if sluice.CodeOf(err) != sluice.Unavailable || ctx.Err() != nil {
			return f, err
		}
		runtime.Gosched()
	}
}

// witness notes what a reader is sent, and holds it against what there was.
type witness struct {
	since  uint64
	wanted sluice.Pattern
	seqs   []uint64
	lags   []lag
	resume uint64 // the highest place behind which it was told to resume
	behind uint64 // the sequence of an event that came later and is not behind that place; 0: none
}

type lag struct {
	feed.Lagged

	after uint64 // the last sequence before it
}

func (w *witness) last() uint64 {
	if len(w.seqs) == 0 {
		return w.since
	}
	return w.seqs[len(w.seqs)-1]
}

func (w *witness) take(frames []feed.Frame) {
	for _, f := range frames {
		switch {
		case f.Lagged != nil:
			w.lags = append(w.lags, lag{*f.Lagged, w.last()})
		case !f.Idle:
			if f.Seq <= w.resume {
				w.behind = f.Seq
			}
			w.seqs = append(w.seqs, f.Seq)
		}
		w.resume = max(w.resume, f.Resume)
	}
}

// check returns what is wrong: what was sent ascends, all of it was wanted, and what lies between is what the
// reader was told that it missed, which is exactly so much. A reader that resumed at any time would have been
// sent the same.
func (w *witness) check(log *memory) error {
	if w.behind > 0 {
		return fmt.Errorf("%d came after a place to resume behind it", w.behind)
	}
	all, _ := log.behind(w.since, len(log.events))
	missed := map[uint64]int{} // behind which sequence
	at := w.since
	rest := w.seqs
	for _, ev := range all {
		switch {
		case !w.wanted.Match(ev.Path):
		case len(rest) > 0 && rest[0] == ev.Seq:
			at, rest = ev.Seq, rest[1:]
		default:
			missed[at]++
		}
	}
	if len(rest) > 0 {
		return fmt.Errorf("%d was sent twice, out of order, or was not wanted", rest[0])
	}
	for _, l := range w.lags {
		if missed[l.after] != l.Missed {
			return fmt.Errorf("behind %d were missed %d, and it was told %d", l.after, missed[l.after], l.Missed)
		}
		if i := l.after; l.Oldest <= i || l.Head < l.Oldest {
			return fmt.Errorf("behind %d: the next is %d, the last %d", l.after, l.Oldest, l.Head)
		}
		delete(missed, l.after)
	}
	if len(missed) > 0 {
		return fmt.Errorf("missed and not told: %v", missed)
	}
	return nil
}

// errEnough ends a feed whose reader has seen the last event.
var errEnough = errors.New("enough")

// S2-88…90, S2-94, S2-124…129, S2-135: at any size, pace and trouble, a reader is sent every event
// that it wants once and in order, or is told exactly how many it missed.
func TestFeed_SendsOnceOrCountsTheMissed(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		log := newMemory(rapid.IntRange(1, 7).Draw(rt, "page"))
		log.trouble = rapid.SampledFrom([]int{0, 0, 40}).Draw(rt, "trouble")
		opts := feed.Options{Ring: rapid.IntRange(1, 12).Draw(rt, "ring"), MaxBuffer: 64, RingBytes: rapid.SampledFrom([]int{1, 4096, 1 << 20}).Draw(rt, "bytes")}
		opts.Heartbeat = rapid.SampledFrom([]time.Duration{0, time.Nanosecond}).Draw(rt, "heartbeat")
		distances := rapid.SliceOfN(rapid.Uint64Range(1, 3), 1, 150).Draw(rt, "distances")
		before := rapid.IntRange(0, len(distances)).Draw(rt, "before")
		type reader struct{ since, buffer, pause int }
		readers := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) reader {
			return reader{rapid.IntRange(-1, 200).Draw(rt, "since"), rapid.IntRange(1, 20).Draw(rt, "buffer"), rapid.IntRange(0, 30).Draw(rt, "pause")}
		}), 1, 4).Draw(rt, "readers")

		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		ended, end := context.WithCancel(ctx)
		defer end()
		e := feed.New(log, open{}, opts)
		var all sync.WaitGroup
		defer all.Wait()
		defer end()
		all.Go(func() { _ = e.Run(ended) })
		publish := func(distances []uint64) {
			for i, d := range distances {
				log.publish(d, []sluice.Path{"/a", "/b/c"}[i%3/2], "1")
				runtime.Gosched()
			}
		}
		publish(distances[:before])
		var group sync.WaitGroup
		errs := make([]error, len(readers))
		published := make(chan struct{})
		for i, r := range readers {
			w := feed.Wish{Buffer: r.buffer, Pattern: sluice.Pattern([]string{"/**", "/b/*"}[i%2])}
			if r.since >= 0 {
				w.Since = strconv.Itoa(r.since)
			}
			group.Go(func() { errs[i] = reading{e, log, w, r.pause, published}.all(ctx) })
		}
		publish(distances[before:])
		log.publish(1, "/b/last", "1") // the last of every reader
		close(published)
		group.Wait()
		require.NoError(rt, errors.Join(errs...))
	})
}

// reading is how a feed is read.
type reading struct {
	engine    *feed.Engine
	log       *memory
	wish      feed.Wish
	pause     int             // after each piece
	published <-chan struct{} // closed when the log has its last event
}

// all reads the feed up to the log's last event, and checks what came.
func (r reading) all(ctx context.Context) error {
	e, log, w, pause, published := r.engine, r.log, r.wish, r.pause, r.published
	f, err := opened(ctx, e, w)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, now := log.ends(); f.Current() > now {
		return fmt.Errorf("the cursor is %d, and the log ends at %d", f.Current(), now)
	}
	seen := witness{since: f.Since(), wanted: w.Pattern}
	isOver := func() bool {
		select {
		case <-published:
			_, end := log.ends()
			return seen.last() == end
		default:
			return false
		}
	}
	if isOver() {
		return nil
	}
	err = f.Run(ctx, func(frames []feed.Frame) error {
		seen.take(frames)
		for range pause {
			runtime.Gosched()
		}
		<-after(pause)
		if isOver() {
			return errEnough
		}
		return nil
	}, func() {})
	if !errors.Is(err, errEnough) {
		return fmt.Errorf("the feed ended at %d: %w", seen.last(), err)
	}
	return seen.check(log)
}

// after returns what ends soon, and sometimes a little later.
func after(pause int) <-chan time.Time {
	if pause < 25 {
		c := make(chan time.Time)
		close(c)
		return c
	}
	return time.After(time.Duration(pause) * 10 * time.Microsecond)
}
