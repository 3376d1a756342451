package capacity

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

const (
	bindEvery = time.Second     // minimum interval of limiting new and reconfigured logs
	bindLimit = time.Minute     // timeout for limiting all streams of a store
	healEvery = time.Second     // interval of disk probes
	healLimit = time.Minute     // timeout for one restart of the store
	askLimit  = 2 * time.Second // timeout for reading the usage

	usageEvery    = 250 * time.Millisecond // of a store in this process
	usageEveryFar = 5 * time.Second
)

// Store is the store to limit.
type Store interface {
	// Bind makes streams refuse more data at a level, and accept more again at a lower one: the
	// streams that grow with published events and, at a higher level, those that grow with
	// deliveries. It leaves none of the limited streams more than share bytes.
	Bind(ctx context.Context, level sluice.StorageLevel, share uint64) error
}

// Disk is the disk of a store in this process.
type Disk interface {
	Intact() context.Context // ends when writes fail; its cause is the reason
	Probe() error            // nil if writes succeed
	Reopen(ctx context.Context) error
}

// Options configure a Watch.
type Options struct {
	Usage func(context.Context) (sluice.Storage, error) // used, limit, free
	Every time.Duration                                 // maximum interval of calls of Usage; 0: as often as the store's place permits
	Store Store
	Disk  Disk // nil: the store is elsewhere

	// Refuses reports whether a store elsewhere has no room for any write. nil: no such check.
	Refuses func(context.Context) bool

	Log *slog.Logger
}

// Watch keeps a store within its limits. It is safe for concurrent use.
type Watch struct {
	opts Options

	mu    sync.Mutex
	level sluice.StorageLevel

	bound  sluice.StorageLevel // the level that the streams are limited for; only Run uses these
	next   time.Time           // time of their next check
	failed bool                // the last attempt to limit them failed

	refuses bool      // the last result of Options.Refuses
	ask     time.Time // when Options.Refuses is called again
}

// New returns a watch that is idle until Run.
func New(opts Options) *Watch {
	if opts.Every == 0 {
		opts.Every = usageEveryFar
		if opts.Disk != nil {
			opts.Every = usageEvery
		}
	}
	return &Watch{opts: opts}
}

// UsageOf returns the function Options.Usage for a store in this process. It reports the store's
// own limit and the free space of its disk.
func UsageOf(of interface {
	Storage() (used, limit uint64, err error)
	Free() (uint64, error)
},
) func(context.Context) (sluice.Storage, error) {
	return func(context.Context) (sluice.Storage, error) {
		used, limit, err := of.Storage()
		storage := sluice.Storage{UsedBytes: used, LimitBytes: limit}
		if free, err := of.Free(); err == nil {
			storage.FreeBytes = &free
		}
		return storage, err
	}
}

// UsageWithin returns the function Options.Usage for a store elsewhere: the usage that read
// returns, with the operator's limit of most bytes if that is lower. 0: the operator set none.
func UsageWithin(most int64, read func(context.Context) (sluice.Storage, error)) func(context.Context) (sluice.Storage, error) {
	return func(ctx context.Context) (sluice.Storage, error) {
		storage, err := read(ctx)
		if limit := uint64(max(most, 0)); limit > 0 && (storage.LimitBytes == 0 || limit < storage.LimitBytes) {
			storage.LimitBytes = limit
		}
		return storage, err
	}
}

// Level returns the present level.
func (w *Watch) Level() sluice.StorageLevel {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.level
}

// Grow returns nil if the store may grow by data other than events, else an error with code
// Unavailable and the remedy.
func (w *Watch) Grow() error {
	if level := w.Level(); level >= sluice.StorageScarce {
		return level.Problem()
	}
	return nil
}

// Whole returns nil if the store can write, else an error with code Unavailable and the remedy.
func (w *Watch) Whole() error {
	if level := w.Level(); level >= sluice.StorageBroken {
		return level.Problem()
	}
	return nil
}

// Run checks the usage repeatedly, limits the streams accordingly and restarts a failed store,
// until ctx is done.
func (w *Watch) Run(ctx context.Context) error {
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		w.heal(ctx)
		next.Reset(w.look(ctx))
		select {
		case <-next.C:
		case <-w.broke():
		case <-ctx.Done():
			return nil
		}
	}
}

// broke returns a channel that is closed when the store can no longer write; nil if that is
// unknown.
func (w *Watch) broke() <-chan struct{} {
	if w.opts.Disk == nil {
		return nil
	}
	return w.opts.Disk.Intact().Done()
}

// failure returns why the store cannot write, nil if it can.
func (w *Watch) failure() error {
	if w.opts.Disk == nil {
		return nil
	}
	return context.Cause(w.opts.Disk.Intact())
}

// look reads the usage, limits the streams accordingly, and returns the time until the next check.
func (w *Watch) look(ctx context.Context) (again time.Duration) {
	limit, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	usage, err := w.opts.Usage(limit)
	if err != nil || ctx.Err() != nil {
		return w.opts.Every // callers of Usage see the error themselves
	}
	was := w.Level()
	is := Next(was, usage)
	now := is
	if w.refusesAll(limit) {
		now = sluice.StorageBroken
	}
	if now != was {
		w.enter(ctx, now, usage)
	}
	if is != w.bound || (w.failed || is > sluice.StorageAmple) && !time.Now().Before(w.next) {
		w.bind(ctx, is, usage)
	}
	again = Again(is, usage, w.opts.Every)
	if now == sluice.StorageBroken {
		again = min(again, healEvery)
	}
	return again
}

// refusesAll reports whether a store elsewhere refuses every write. It asks once in Options.Every,
// and more often while the store refuses.
func (w *Watch) refusesAll(ctx context.Context) bool {
	if w.opts.Refuses == nil || time.Now().Before(w.ask) {
		return w.refuses
	}
	w.refuses = w.opts.Refuses(ctx)
	w.ask = time.Now().Add(w.opts.Every)
	if w.refuses {
		w.ask = time.Now().Add(min(healEvery, w.opts.Every))
	}
	return w.refuses
}

// bind limits the streams as the level requires. While they are limited, it is called repeatedly,
// because logs are created and reconfigured meanwhile; the longer a call takes, the less often.
func (w *Watch) bind(ctx context.Context, level sluice.StorageLevel, usage sluice.Storage) {
	limit, cancel := context.WithTimeout(ctx, bindLimit)
	defer cancel()
	begun := time.Now()
	err := w.opts.Store.Bind(limit, level, usage.LimitBytes-Reserve(usage.LimitBytes))
	w.bound, w.next = level, time.Now().Add(max(bindEvery, 10*time.Since(begun)))
	if err != nil && ctx.Err() == nil && !w.failed {
		w.opts.Log.WarnContext(ctx, "limits of some streams not applied; retrying", slog.Any("error", err))
	}
	w.failed = err != nil
}

// enter changes the level and logs it.
func (w *Watch) enter(ctx context.Context, level sluice.StorageLevel, usage sluice.Storage) {
	w.set(level)
	attrs := []slog.Attr{slog.Uint64("used", usage.UsedBytes), slog.Uint64("limit", usage.LimitBytes), slog.Uint64("left", Left(usage))}
	if level > sluice.StorageAmple {
		w.complain(ctx, level, attrs...)
		return
	}
	w.opts.Log.LogAttrs(ctx, slog.LevelInfo, "the store has free space again", attrs...)
}

func (w *Watch) set(level sluice.StorageLevel) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.level = level
}

// complain logs which writes the store refuses from now on.
func (w *Watch) complain(ctx context.Context, level sluice.StorageLevel, attrs ...slog.Attr) {
	attrs = append(attrs, slog.String("level", level.String()), slog.String("problem", level.Problem().Message))
	w.opts.Log.LogAttrs(ctx, slog.LevelError, "the store is at its limit", attrs...)
}

// heal restarts the store after a write failure, once the disk accepts writes.
func (w *Watch) heal(ctx context.Context) {
	failure := w.failure() //nolint:contextcheck // it reads a context of the disk
	if failure == nil {
		return
	}
	w.set(sluice.StorageBroken)
	w.complain(ctx, sluice.StorageBroken, slog.Any("error", failure))
	tick := time.NewTicker(healEvery)
	defer tick.Stop()
	for w.reopen(ctx) != nil {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
	w.set(sluice.StorageAmple) // until the next check
	w.next = time.Time{}
	w.opts.Log.LogAttrs(ctx, slog.LevelWarn, "the disk accepts writes again; the store was restarted")
}

var errStopping = errors.New("the server is being stopped")

// reopen restarts the store if the disk accepts files.
func (w *Watch) reopen(ctx context.Context) error {
	if ctx.Err() != nil {
		return errStopping
	}
	if err := w.opts.Disk.Probe(); err != nil {
		return err
	}
	limit, cancel := context.WithTimeout(ctx, healLimit)
	defer cancel()
	if err := w.opts.Disk.Reopen(limit); err != nil {
		w.opts.Log.WarnContext(ctx, "the store could not be restarted; retrying", slog.Any("error", err))
		return fmt.Errorf("reopen: %w", err)
	}
	return nil
}
