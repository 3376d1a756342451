package capacity_test

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/capacity"
	"github.com/sluice-io/sluice/pkg/sluice"
)

func of(used, limit, free uint64) sluice.Storage {
	return sluice.Storage{UsedBytes: used, LimitBytes: limit, FreeBytes: &free}
}

// F4: a tenth of the store is kept, its last half for what frees room; a level is left later than it is entered.
func TestNext_EntersAndLeavesLevels(t *testing.T) {
	t.Parallel()
	const ample, tight, scarce = sluice.StorageAmple, sluice.StorageTight, sluice.StorageScarce
	for _, c := range []struct {
		was        sluice.StorageLevel
		used, free uint64 // of 1,000, of which 100 are kept
		want       sluice.StorageLevel
	}{
		{ample, 0, 1000, ample},
		{ample, 900, 1000, ample},
		{ample, 901, 1000, tight},
		{ample, 950, 1000, tight},
		{ample, 951, 1000, scarce},
		{ample, 2000, 1000, scarce},
		{ample, 0, 100, ample},
		{ample, 0, 99, tight},
		{ample, 0, 0, scarce},
		{tight, 850, 1000, ample},
		{tight, 851, 1000, tight},
		{tight, 950, 1000, tight},
		{tight, 951, 1000, scarce},
		{scarce, 925, 1000, tight},
		{scarce, 926, 1000, scarce},
		{scarce, 850, 1000, ample},
	} {
		require.Equal(t, c.want, capacity.Next(c.was, of(c.used, 1000, c.free)), "%+v", c)
	}
	require.Equal(t, ample, capacity.Next(scarce, of(5, 0, 0)), "without a limit nothing is refused")
	require.Equal(t, tight, capacity.Next(ample, sluice.Storage{UsedBytes: 901, LimitBytes: 1000}), "what the disk has free is not known")
	require.EqualValues(t, 1<<30, capacity.Reserve(100<<30))
	require.EqualValues(t, 100, capacity.Reserve(1000))
}

// The nearer the next level is, the sooner it is looked again.
func TestAgain_IsInTimeForTheNextLevel(t *testing.T) {
	t.Parallel()
	const every, gib = 250 * time.Millisecond, 1 << 30
	for _, c := range []struct {
		is   sluice.StorageLevel
		used uint64
		want time.Duration
	}{
		{sluice.StorageAmple, 0, every},
		{sluice.StorageAmple, 9*gib - gib/4, 125 * time.Millisecond},
		{sluice.StorageAmple, 9 * gib, 5 * time.Millisecond},
		{sluice.StorageTight, 9 * gib, every},
		{sluice.StorageTight, 9*gib + gib/4, 125 * time.Millisecond},
		{sluice.StorageScarce, 10 * gib, every},
	} {
		require.Equal(t, c.want, capacity.Again(c.is, of(c.used, 10*gib, math.MaxUint64), every), "%+v", c)
	}
	require.Equal(t, every, capacity.Again(sluice.StorageAmple, of(0, 0, 0), every))
}

// store remembers how it was bound.
type store struct {
	mu    sync.Mutex
	bound []sluice.StorageLevel
	share uint64
	err   error
}

func (s *store) Bind(_ context.Context, level sluice.StorageLevel, share uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bound, s.share = append(s.bound, level), share
	return s.err
}

// levels returns how it was bound so far, and the last share.
func (s *store) levels() ([]sluice.StorageLevel, uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.bound), s.share
}

// fails lets it fail from now on, or not any more.
func (s *store) fails(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

// disk is one that breaks and is whole again as the test says.
type disk struct {
	mu       sync.Mutex
	intact   context.Context //nolint:containedctx // what it hands out
	fail     context.CancelCauseFunc
	full     bool
	restarts int
	stuck    int // restarts that fail
}

func newDisk() *disk {
	d := &disk{stuck: 2}
	d.intact, d.fail = context.WithCancelCause(context.Background())
	return d
}

func (d *disk) Intact() context.Context {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.intact
}

func (d *disk) Probe() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.full {
		return errors.New("no space left")
	}
	return nil
}

func (d *disk) Reopen(context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.restarts++
	if d.stuck > 0 {
		d.stuck--
		return errors.New("it does not start")
	}
	d.intact, d.fail = context.WithCancelCause(context.Background())
	return nil
}

func (d *disk) starts() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.restarts
}

// fill lets the disk take nothing more; empty lets it again.
func (d *disk) fill() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.full = true
	d.fail(errors.New("no space left"))
}

func (d *disk) empty() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.full = false
}

// world runs a watch over a store of 1,000 bytes.
type world struct {
	*capacity.Watch

	store *store
	disk  *disk
	mu    sync.Mutex
	used  uint64
}

func (w *world) use(n uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.used = n
}

func run(t *testing.T) *world {
	t.Helper()
	w := &world{store: &store{}, disk: newDisk()}
	w.Watch = capacity.New(capacity.Options{
		Usage: func(context.Context) (sluice.Storage, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			return of(w.used, 1000, 1000), nil
		},
		Every: time.Second, Store: w.store, Disk: w.disk, Log: slog.New(slog.DiscardHandler),
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	return w
}

// later lets fake time pass.
func later() {
	<-time.After(3 * time.Second)
	synctest.Wait()
}

// F4: the streams are bound while there is little room, again and again, and let go once.
func TestWatch_BindsWhileThereIsLittleRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := run(t)
		uses := func(n uint64) (bound []sluice.StorageLevel, share uint64) {
			w.use(n)
			later()
			return w.store.levels()
		}
		bound, _ := uses(0)
		require.Empty(t, bound)
		require.NoError(t, w.Grow())
		bound, share := uses(920)
		require.Equal(t, sluice.StorageTight, w.Level())
		require.EqualValues(t, 900, share)
		require.NoError(t, w.Grow(), "the room that is left is for what is no event")
		require.Greater(t, len(bound), 1, "a log that was made meanwhile is bound too")
		bound, _ = uses(960)
		require.Equal(t, sluice.Unavailable, sluice.CodeOf(w.Grow()))
		require.NoError(t, w.Whole())
		require.Equal(t, sluice.StorageScarce, bound[len(bound)-1])
		bound, _ = uses(0)
		require.Equal(t, sluice.StorageAmple, bound[len(bound)-1])
		again, _ := uses(0)
		require.Equal(t, bound, again, "once")
		w.store.fails(errors.New("some could not be bound"))
		uses(920)
		bound, _ = uses(0)
		again, _ = uses(0)
		require.Greater(t, len(again), len(bound), "what could not be let go is tried again")
	})
}

// F3: a store that cannot write says so until the disk takes files again and it was started anew.
func TestWatch_StartsTheStoreAnew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := run(t)
		later()
		w.disk.fill()
		synctest.Wait()
		require.Equal(t, sluice.StorageBroken, w.Level())
		later()
		require.Equal(t, sluice.Unavailable, sluice.CodeOf(w.Whole()))
		require.Equal(t, sluice.Unavailable, sluice.CodeOf(w.Grow()))
		require.Zero(t, w.disk.starts(), "no free space yet")
		w.disk.empty()
		later()
		later()
		require.NoError(t, w.Whole())
		require.Equal(t, 3, w.disk.starts())
		require.Equal(t, sluice.StorageAmple, w.Level())
	})
}

// F4: a store elsewhere that refuses every write is broken until it does not.
func TestWatch_AsksAStoreElsewhere(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var refuses atomic.Bool
		w := capacity.New(capacity.Options{
			Usage:   func(context.Context) (sluice.Storage, error) { return of(0, 0, 0), nil },
			Refuses: func(context.Context) bool { return refuses.Load() },
			Every:   time.Second, Store: &store{}, Log: slog.New(slog.DiscardHandler),
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.Run(ctx) }()
		later()
		require.NoError(t, w.Whole())
		refuses.Store(true)
		later()
		require.Equal(t, sluice.StorageBroken, w.Level())
		require.ErrorContains(t, w.Whole(), "max_file_store")
		refuses.Store(false)
		later()
		require.Equal(t, sluice.StorageAmple, w.Level())
		cancel()
		require.NoError(t, <-ended)
	})
}

// A store that is being watched ends with its server, broken or not.
func TestWatch_EndsWhileBroken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := run(t)
		w.disk.fill()
		later()
		require.Equal(t, sluice.StorageBroken, w.Level())
	})
}
