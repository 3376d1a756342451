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

// A reader of a log behind its ring gets everything once and in order, with any other readers at the same time, and whichever
// of them stop in the middle of it.
func TestPages_GiveEveryReaderEverything(t *testing.T) {
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
func TestPages_AreReadOnceForMany(t *testing.T) {
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
		require.Zero(t, kept, "no reader is left")
		require.Zero(t, weight)
	})
}

// A page whose reader leaves, or that cannot be read, is read again by those who wait for it; each learns of its own failure.
func TestPages_WaiterReadsAnAbandonedOne(t *testing.T) {
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

// The pages that are kept are bounded for any reads: the least recently used goes first.
func TestPages_AreBounded(t *testing.T) {
	t.Parallel()
	const size = 1 << 20
	reads := 0
	p := pages{read: func(_ context.Context, _ sluice.Pattern, after, _ uint64) ([]sluice.Event, uint64, error) {
		reads++
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
	require.Equal(t, 50, reads, "the first was not forgotten in between")
	kept, _ := p.size()
	require.Equal(t, pagesWeight/(2*size+itemOverhead+pageOverhead), kept)
	one, mine := p.find(everything, 0)
	require.False(t, mine)
	require.Zero(t, one.after)
}

// A page is shared by those who ask for what it has: all paths, or the same pattern. Of one that is being read it is not known
// how far it will reach.
func TestPage_IsSharedByEqualPatterns(t *testing.T) {
	t.Parallel()
	reading, read := make(chan struct{}), make(chan struct{})
	close(read)
	for _, c := range []struct {
		name    string
		page    page
		pattern sluice.Pattern
		after   uint64
		want    bool
	}{
		{"all paths", page{pattern: everything, ready: read, reached: 9}, "/a", 8, true},
		{"the same pattern", page{pattern: "/a", ready: read, reached: 9}, "/a", 8, true},
		{"another pattern", page{pattern: "/a", ready: read, reached: 9}, "/b", 8, false},
		{"a place behind it", page{pattern: "/a", ready: read, reached: 9}, "/a", 9, false},
		{"a place before it", page{pattern: "/a", ready: read, after: 3, reached: 9}, "/a", 2, false},
		{"soon behind its beginning", page{pattern: "/a", ready: reading, after: 3}, "/a", 2 + soon, true},
		{"too far behind its beginning", page{pattern: "/a", ready: reading, after: 3}, "/a", 3 + soon, false},
	} {
		require.Equal(t, c.want, c.page.has(c.pattern, c.after), c.name)
	}
}

// Pages stay while they are read, and one that is being read is not forgotten; where nothing comes behind a place, that is the answer.
func TestPages_StayWhileTheyAreRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := &shelf{last: 100, most: 500}
		p := pages{read: log.read}
		for range 5 {
			_, _, err := p.behind(t.Context(), everything, 0, 100)
			require.NoError(t, err)
			<-time.After(pagesKept - 2*time.Second)
		}
		require.Equal(t, int32(1), log.reads.Load())
		items, reached, err := p.behind(t.Context(), everything, 100, 100)
		require.NoError(t, err)
		require.Empty(t, items)
		require.Equal(t, uint64(100), reached)
		<-time.After(pagesKept + time.Second)
		go func() { _, _, _ = p.behind(t.Context(), everything, 0, 100) }()
		synctest.Wait()
		p.mu.Lock()
		p.forget(func(*page) bool { return true })
		p.mu.Unlock()
		kept, _ := p.size()
		require.Equal(t, 1, kept)
		<-time.After(pagesKept + time.Second)
	})
}
