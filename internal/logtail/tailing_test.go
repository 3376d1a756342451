package logtail_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sluice-io/sluice/internal/logtail"
	"github.com/sluice-io/sluice/internal/logtail/ringbuffer"
	"github.com/sluice-io/sluice/pkg/sluice"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	errBegan    = errors.New("it began anew")
	errStopping = errors.New("it stops")
	errTrouble  = errors.New("no server answers")
)

// log is a log in memory: its sequences are places, from 1.
type log struct {
	mu      sync.Mutex
	changed chan struct{}
	last    uint64
	ends    error // of Ends
	tail    error // of Tail
	tails   int   // that were begun
	base    uint64
}

func newLog() *log { return &log{changed: make(chan struct{})} }

func (l *log) set(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *log) Ends(context.Context, string) (first, last uint64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return 1, l.last, l.ends
}

func (l *log) Tail(ctx context.Context, _ string, after uint64, each func(sluice.Event) error) error {
	l.mu.Lock()
	l.tails++
	l.mu.Unlock()
	for {
		l.mu.Lock()
		last, err, changed, base := l.last, l.tail, l.changed, l.base
		l.mu.Unlock()
		if err != nil {
			return err
		}
		for ; after < last; after++ {
			if err := each(sluice.Event{Seq: after + 1 - base}); err != nil {
				return err
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// beside is what is noted of a tail.
type beside struct {
	mu    sync.Mutex
	while bool
	ended error
}

type (
	set  = logtail.Set[sluice.Event, *beside]
	tail = logtail.Tail[sluice.Event, *beside]
)

func newSet(l *log, linger time.Duration) *set {
	return logtail.New(logtail.Deps[sluice.Event, *beside]{
		Log: l, Beside: func(*tail) *beside { return &beside{} }, Item: func(ev sluice.Event) sluice.Event { return ev },
		Ring: func(last uint64) *ringbuffer.Ring[sluice.Event] {
			return ringbuffer.New(ringbuffer.Of[sluice.Event]{Seq: func(ev sluice.Event) uint64 { return ev.Seq }, Weight: func(sluice.Event) int { return 1 }}, 16, 1000, last)
		},
		While: func(ctx context.Context, t *tail) {
			t.Beside.note(func(b *beside) { b.while = true })
			<-ctx.Done()
			t.Beside.note(func(b *beside) { b.while = false })
		},
		Over:  func(context.Context, *tail) error { return nil },
		Ended: func(t *tail, why error) { t.Beside.note(func(b *beside) { b.ended = why }) },
		Began: func() error { return errBegan }, Stopping: func() error { return errStopping },
		Linger: linger, For: "tests", Slog: slog.New(slog.DiscardHandler),
	})
}

func (b *beside) note(f func(*beside)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f(b)
}

func (b *beside) is() (while bool, ended error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.while, b.ended
}

// within begins a set, does something, and ends it.
func within(t *testing.T, s *set, f func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	s.Begin(ctx)
	f()
	cancel()
	s.End()
}

func enter(t *testing.T, s *set) (*tail, func()) {
	t.Helper()
	one, leave, err := s.Enter(t.Context(), "acme")
	require.NoError(t, err)
	return one, leave
}

func TestReader_IsSharedByAllUsersOfALog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLog()
		l.last = 3
		s := newSet(l, time.Minute)
		_, _, err := s.Enter(t.Context(), "acme")
		require.ErrorIs(t, err, errStopping, "it has not begun")
		within(t, s, func() {
			one, leaveOne := enter(t, s)
			other, leaveOther := enter(t, s)
			require.Same(t, one, other)
			require.Len(t, s.Tails(), 1)
			l.set(func() { l.last = 5 })
			synctest.Wait()
			require.Equal(t, []uint64{3, 5, 1}, []uint64{one.Ring().From(), one.Ring().Last(), uint64(l.tails)})
			leaveOne()
			leaveOne()
			leaveOther()
			<-time.After(59 * time.Second)
			again, leave := enter(t, s)
			require.Same(t, one, again, "it lingers")
			leave()
			<-time.After(61 * time.Second)
			require.Empty(t, s.Tails())
			while, ended := one.Beside.is()
			require.False(t, while)
			require.ErrorIs(t, ended, errStopping)
			another, leave := enter(t, s)
			require.NotSame(t, one, another)
			leave()
		})
		_, _, err = s.Enter(t.Context(), "acme")
		require.ErrorIs(t, err, errStopping, "it has ended")
	})
}

func TestReader_UnusedOneEndsAtOnceWithoutLingering(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSet(newLog(), 0)
		within(t, s, func() {
			one, leave := enter(t, s)
			synctest.Wait()
			while, _ := one.Beside.is()
			require.True(t, while)
			leave()
			require.Empty(t, s.Tails())
			synctest.Wait()
			while, ended := one.Beside.is()
			require.False(t, while)
			require.ErrorIs(t, ended, errStopping)
		})
	})
}

func TestReader_ResumesAfterTrouble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLog()
		s := newSet(l, 0)
		within(t, s, func() {
			one, leave := enter(t, s)
			defer leave()
			l.set(func() { l.last = 2 })
			synctest.Wait()
			l.set(func() { l.tail = errTrouble })
			<-time.After(time.Minute)
			l.set(func() { l.tail, l.last = nil, 4 })
			<-time.After(time.Minute)
			require.Equal(t, []uint64{0, 4}, []uint64{one.Ring().From(), one.Ring().Last()})
			require.Less(t, l.tails, 30, "it asks less and less often")
		})
	})
}

// Who is in a ring whose log is another one is told, and finds another reader.
func TestReader_EndsWithItsLog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLog()
		l.last = 3
		s := newSet(l, time.Minute)
		within(t, s, func() {
			one, leave := enter(t, s)
			l.set(func() { l.base, l.last = 3, 4 }) // from 1 on
			synctest.Wait()
			_, err := one.Ring().Take(3, nil)
			require.ErrorIs(t, err, errBegan)
			_, ended := one.Beside.is()
			require.ErrorIs(t, ended, errBegan)
			require.Empty(t, s.Tails())
			another, leaveAnother := enter(t, s)
			require.NotSame(t, one, another)
			leave()
			require.Len(t, s.Tails(), 1, "leaving the old one does not end the new one")
			leaveAnother()
		})
	})
}

func TestReader_ReportsItsTrouble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLog()
		l.ends = errTrouble
		s := newSet(l, time.Minute)
		within(t, s, func() {
			_, _, err := s.Enter(t.Context(), "acme")
			require.ErrorIs(t, err, errTrouble)
			l.set(func() { l.ends = nil })
			_, leave := enter(t, s)
			leave()
		})
	})
}
