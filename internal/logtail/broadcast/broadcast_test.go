package broadcast_test

import (
	"context"
	"errors"
	"log/slog"
	"sort"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/logtail/broadcast"
	"github.com/sluice-io/sluice/internal/logtail/ringbuffer"
)

const (
	waitFor = time.Minute
	tick    = time.Millisecond
)

// together is how many messages the buffers of all logs have.
const together = 6

var errLog = errors.New("the log failed")

// memory is a log in memory.
type memory struct {
	mu      sync.Mutex
	msgs    []uint64
	changed chan struct{}
	failed  error
	tails   int // calls of Tail
	reading int // of them, the present ones
}

func newMemory(msgs ...uint64) *memory {
	return &memory{msgs: msgs, changed: make(chan struct{})}
}

func (m *memory) change(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f()
	close(m.changed)
	m.changed = make(chan struct{})
}

func (m *memory) add(msgs ...uint64) { m.change(func() { m.msgs = append(m.msgs, msgs...) }) }

func (m *memory) fail(err error) { m.change(func() { m.failed = err }) }

func (m *memory) counts() (tails, reading int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.tails, m.reading
}

func (m *memory) Last(context.Context, string) (uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.msgs) == 0 {
		return 0, m.failed
	}
	return m.msgs[len(m.msgs)-1], m.failed
}

func (m *memory) Tail(ctx context.Context, _ string, after uint64, each func(uint64) error) error {
	m.change(func() { m.tails++; m.reading++ })
	defer m.change(func() { m.reading-- })
	next := -1
	for {
		m.mu.Lock()
		msgs, changed, failed := m.msgs, m.changed, m.failed
		m.mu.Unlock()
		if failed != nil {
			return failed
		}
		if next < 0 {
			next = sort.Search(len(msgs), func(i int) bool { return msgs[i] > after })
		}
		for ; next < len(msgs); next++ {
			if err := each(msgs[next]); err != nil {
				return err
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// over returns a Broadcaster over a log, with a buffer of four messages.
func over(t *testing.T, log *memory) *broadcast.Broadcaster[uint64] {
	t.Helper()
	b := broadcast.New(t.Context(), broadcast.Options[uint64]{
		Source: log,
		Of:     ringbuffer.Of[uint64]{Seq: func(m uint64) uint64 { return m }, Weight: func(uint64) int { return 1 }},
		Size:   4, Weight: 1 << 20, All: together,
		Slog: slog.New(slog.DiscardHandler),
	})
	t.Cleanup(b.Close)
	return b
}

// following is a follower and what it was handed.
type following struct {
	begun, ended chan struct{}
	got          chan uint64
	hold         chan struct{} // received from before each message; nil: it takes them at once
	stop         context.CancelFunc
	err          error
}

func follow(t *testing.T, b *broadcast.Broadcaster[uint64], after uint64, hold chan struct{}) *following {
	t.Helper()
	return followLog(t, b, "log", after, hold)
}

func followLog(t *testing.T, b *broadcast.Broadcaster[uint64], log string, after uint64, hold chan struct{}) *following {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	f := &following{begun: make(chan struct{}), ended: make(chan struct{}), got: make(chan uint64, 100), hold: hold, stop: stop}
	go func() {
		defer close(f.ended)
		f.err = b.Follow(ctx, log, after, func() { close(f.begun) }, func(m uint64) error {
			if f.hold != nil {
				<-f.hold
			}
			f.got <- m
			return nil
		})
	}()
	t.Cleanup(func() { stop(); <-f.ended })
	return f
}

func (f *following) next(t *testing.T, want ...uint64) {
	t.Helper()
	for _, w := range want {
		require.Equal(t, w, <-f.got)
	}
}

// ends waits for the end of following, and returns why.
func (f *following) ends() error {
	<-f.ended
	return f.err
}

func TestFollow_OneReaderServesAll(t *testing.T) {
	t.Parallel()
	log := newMemory(1, 2, 3)
	b := over(t, log)
	first, second := follow(t, b, 3, nil), follow(t, b, broadcast.FromNow, nil)
	<-first.begun
	<-second.begun
	log.add(4, 6)
	first.next(t, 4, 6)
	second.next(t, 4, 6)
	tails, _ := log.counts()
	require.Equal(t, 1, tails)
	require.Equal(t, 1, b.Readers())
	first.stop()
	require.ErrorIs(t, first.ends(), context.Canceled)
	log.add(7)
	second.next(t, 7)
	second.stop()
	<-second.ended
	require.Zero(t, b.Readers(), "no follower, no reader")
	require.Eventually(t, func() bool { _, reading := log.counts(); return reading == 0 }, waitFor, tick)
}

func TestFollow_ReadsAloneUntilTheBufferReachesBack(t *testing.T) {
	t.Parallel()
	log := newMemory(1, 2, 3)
	b := over(t, log)
	live := follow(t, b, 3, nil)
	<-live.begun
	old := follow(t, b, 0, nil)
	old.next(t, 1, 2, 3)
	require.Eventually(t, func() bool { tails, reading := log.counts(); return tails == 2 && reading == 1 }, waitFor, tick)
	log.add(4)
	old.next(t, 4)
	live.next(t, 4)
}

func TestFollow_SlowFollowerMissesNothing(t *testing.T) {
	t.Parallel()
	log := newMemory(1)
	b := over(t, log)
	fast := follow(t, b, 1, nil)
	slow := follow(t, b, 1, make(chan struct{}))
	<-fast.begun
	<-slow.begun
	for m := uint64(2); m < 40; m++ {
		log.add(m)
		fast.next(t, m)
	}
	for m := uint64(2); m < 40; m++ {
		slow.hold <- struct{}{}
		slow.next(t, m)
	}
	log.add(40)
	fast.next(t, 40)
	slow.hold <- struct{}{}
	slow.next(t, 40)
}

// The buffers of many logs are small together, and a follower that is behind in one that gave way misses nothing.
func TestBuffers_AreBoundedTogether(t *testing.T) {
	t.Parallel()
	log := newMemory(1)
	b := over(t, log)
	all := []*following{followLog(t, b, "slow", 1, make(chan struct{}))}
	release := sync.OnceFunc(func() { close(all[0].hold) })
	t.Cleanup(release)
	for i := range 50 {
		all = append(all, followLog(t, b, strconv.Itoa(i), 1, nil))
	}
	for _, f := range all {
		<-f.begun
	}
	log.add(2, 3, 4, 5)
	for _, f := range all[1:] {
		f.next(t, 2, 3, 4, 5)
	}
	require.Eventually(t, func() bool { return b.Held() <= together }, waitFor, tick)
	release()
	all[0].next(t, 2, 3, 4, 5)
	for _, f := range all[2:] {
		f.stop()
	}
	require.Eventually(t, func() bool { _, reading := log.counts(); return reading == 2 }, waitFor, tick)
	log.add(6, 7)
	all[0].next(t, 6, 7)
	all[1].next(t, 6, 7)
	require.Eventually(t, func() bool { return b.Held() > 1 && b.Held() <= together }, waitFor, tick, "the present ones have the room")
}

func TestFollow_EndsWithTheLog(t *testing.T) {
	t.Parallel()
	log := newMemory(1)
	b := over(t, log)
	f := follow(t, b, 1, nil)
	<-f.begun
	log.fail(errLog)
	require.ErrorIs(t, f.ends(), errLog)
	require.ErrorIs(t, b.Follow(t.Context(), "log", 1, nil, nil), errLog, "it cannot begin either")
	log.fail(nil)
	again := follow(t, b, 1, nil)
	<-again.begun
	log.add(2)
	again.next(t, 2)
}

func TestFollow_ALogThatWasRecreatedEnds(t *testing.T) {
	t.Parallel()
	log := newMemory(5)
	b := over(t, log)
	f := follow(t, b, 5, nil)
	<-f.begun
	log.add(1)
	require.ErrorIs(t, f.ends(), broadcast.ErrRecreated)
}

func TestFollow_ShortenedLogIsReadFromItsNewEnd(t *testing.T) {
	t.Parallel()
	log := newMemory(1, 2)
	f := follow(t, over(t, log), 9, nil)
	<-f.begun
	log.add(3)
	f.next(t, 3)
}

func TestFollow_EndsWithTheFollower(t *testing.T) {
	t.Parallel()
	log := newMemory(1, 2)
	b := over(t, log)
	enough := errors.New("enough")
	refuse := func(uint64) error { return enough }
	require.ErrorIs(t, b.Follow(t.Context(), "log", 0, nil, refuse), enough, "while it reads alone")
	done := make(chan error)
	begun := make(chan struct{})
	go func() { done <- b.Follow(t.Context(), "log", 2, func() { close(begun) }, refuse) }()
	<-begun
	log.add(3)
	require.ErrorIs(t, <-done, enough)
}

func TestClose_EndsAll(t *testing.T) {
	t.Parallel()
	log := newMemory(1)
	b := over(t, log)
	f := follow(t, b, 1, nil)
	<-f.begun
	b.Close()
	require.ErrorIs(t, f.ends(), broadcast.ErrClosed)
	require.ErrorIs(t, b.Follow(t.Context(), "log", 1, nil, nil), broadcast.ErrClosed)
	_, reading := log.counts()
	require.Zero(t, reading)
}
