package feed

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// shelf is a log whose last event has the sequence last; every third is gone, and reading takes a while.
type shelf struct {
	last  uint64
	most  int // events of a page
	reads atomic.Int32
}

func (s *shelf) event(seq uint64) sluice.Event {
	return sluice.Event{Seq: seq, Path: sluice.Path(fmt.Sprintf("/%d/x", seq%2)), Type: "t"}
}

func (s *shelf) read(ctx context.Context, pattern sluice.Pattern, after, upTo uint64) (events []sluice.Event, reached uint64, err error) {
	s.reads.Add(1)
	select {
	case <-time.After(time.Millisecond):
	case <-ctx.Done():
		return nil, 0, context.Cause(ctx)
	}
	for seq := after + 1; seq <= s.last; seq++ {
		if ev := s.event(seq); seq%3 > 0 && pattern.Match(ev.Path) {
			events = append(events, ev)
		}
		if len(events) == s.most || seq == upTo {
			return events, seq, nil
		}
	}
	return events, max(s.last, upTo), nil
}

func (p *pages) size() (kept, weight int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.kept), p.weight
}

// through reads pages of a pattern behind a place, and returns what another one matches of them.
func (s *shelf) through(ctx context.Context, p *pages, asked, wanted sluice.Pattern, after uint64) (seqs []uint64, err error) {
	for after < s.last {
		items, reached, err := p.behind(ctx, asked, after, s.last)
		if err != nil {
			return nil, err
		}
		for _, it := range items {
			if it.Event.Seq <= after {
				return nil, errors.New("an item was not behind the place")
			}
			if wanted.Match(it.Event.Path) {
				seqs = append(seqs, it.Event.Seq)
			}
		}
		if reached <= after {
			return nil, errors.New("it does not go on")
		}
		after = reached
	}
	return seqs, nil
}

// Whoever reads a log behind its ring gets everything once and in order, whatever others read at the same time, and whichever
// of them stop in the middle of it.
func TestReadersOfPagesGetEverythingThatTheyAskFor(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		log := &shelf{last: rapid.Uint64Range(1, 3000).Draw(rt, "last"), most: rapid.IntRange(1, 200).Draw(rt, "most")}
		var p pages
		p.read = log.read
		readers := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) [3]uint64 {
			return [3]uint64{rapid.Uint64Range(0, log.last).Draw(rt, "after"), rapid.Uint64Range(0, 3).Draw(rt, "pattern"), rapid.Uint64Range(0, 5).Draw(rt, "leaves")}
		}), 1, 12).Draw(rt, "readers")
		errs := make([]error, len(readers))
		var all sync.WaitGroup
		for i, r := range readers {
			all.Go(func() {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if r[2] == 0 {
					time.AfterFunc(rand.N(3*time.Millisecond), cancel)
				}
				wanted := []sluice.Pattern{everything, "/0/**", "/1/*", "/none"}[r[1]]
				seqs, err := log.through(ctx, &p, wanted, wanted, r[0])
				if ctx.Err() == nil {
					errs[i] = errors.Join(err, log.compare(seqs, wanted, r[0]))
				}
			})
		}
		all.Wait()
		require.NoError(rt, errors.Join(errs...))
	})
}

// compare returns an error unless these are the events behind a place that a pattern matches.
func (s *shelf) compare(seqs []uint64, pattern sluice.Pattern, after uint64) error {
	i := 0
	for seq := after + 1; seq <= s.last; seq++ {
		if seq%3 == 0 || !pattern.Match(s.event(seq).Path) {
			continue
		}
		if i == len(seqs) || seqs[i] != seq {
			return fmt.Errorf("behind %d, %q: %d is missing", after, pattern, seq)
		}
		i++
	}
	if i < len(seqs) {
		return fmt.Errorf("behind %d, %q: %d is too much", after, pattern, seqs[i])
	}
	return nil
}

// Many who come back at once read the log once, also if their patterns differ, when they read everything.
func TestThoseWhoComeBackAtOnceReadTheLogOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := &shelf{last: 2999, most: 500}
		p := pages{read: log.read}
		var all sync.WaitGroup
		for i := range 200 {
			all.Go(func() {
				seqs, err := log.through(t.Context(), &p, everything, "/1/*", uint64(i))
				require.NoError(t, err)
				require.NoError(t, log.compare(seqs, "/1/*", uint64(i)))
			})
		}
		all.Wait()
		require.LessOrEqual(t, log.reads.Load(), int32(9), "four pages; those who began a little earlier read a little more")
		kept, _ := p.size()
		require.Positive(t, kept)
		<-time.After(pagesKept + time.Second)
		synctest.Wait()
		kept, weight := p.size()
		require.Zero(t, kept, "nobody reads any more")
		require.Zero(t, weight)
	})
}

// A page whose reader leaves, or that cannot be read, is read again by those who wait for it; each learns of its own failure.
func TestWhoWaitsForAPageReadsItIfNobodyElseDoes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log, broken := &shelf{last: 100, most: 500}, atomic.Bool{}
		p := pages{read: func(ctx context.Context, pattern sluice.Pattern, after, upTo uint64) ([]sluice.Event, uint64, error) {
			events, reached, err := log.read(ctx, pattern, after, upTo)
			if broken.Load() {
				return nil, 0, errors.New("broken")
			}
			return events, reached, err
		}}
		leaving, leave := context.WithCancel(t.Context())
		var first, second error
		var seqs []uint64
		go func() { _, _, first = p.behind(leaving, everything, 0, 100) }()
		synctest.Wait()
		go func() { seqs, second = log.through(t.Context(), &p, everything, everything, 0) }()
		synctest.Wait()
		leave()
		<-time.After(time.Second)
		synctest.Wait()
		require.ErrorIs(t, first, context.Canceled)
		require.NoError(t, second)
		require.NoError(t, log.compare(seqs, everything, 0))
		broken.Store(true)
		p.mu.Lock()
		p.forget(func(*page) bool { return true })
		p.mu.Unlock()
		for range 2 {
			_, _, err := p.behind(t.Context(), everything, 0, 100)
			require.EqualError(t, err, "broken")
		}
		kept, _ := p.size()
		require.Zero(t, kept)
		<-time.After(pagesKept + time.Second)
	})
}

// What is kept is bounded, whatever is read: what was not used for longest goes first.
func TestPagesThatAreKeptAreBounded(t *testing.T) {
	t.Parallel()
	const size = 1 << 20
	p := pages{read: func(_ context.Context, _ sluice.Pattern, after, _ uint64) ([]sluice.Event, uint64, error) {
		return []sluice.Event{{Seq: after + 1, Path: "/a", Type: "t", Data: make([]byte, size)}}, after + 1, nil
	}}
	for seq := range uint64(50) {
		_, _, err := p.behind(t.Context(), everything, 0, 50) // it is used all the time
		require.NoError(t, err)
		_, _, err = p.behind(t.Context(), everything, seq, 50)
		require.NoError(t, err)
		_, weight := p.size()
		require.LessOrEqual(t, weight, pagesWeight)
	}
	kept, _ := p.size()
	require.Equal(t, pagesWeight/(2*size+itemOverhead+pageOverhead), kept)
	one, mine := p.find(everything, 0)
	require.False(t, mine)
	require.Zero(t, one.after)
}
