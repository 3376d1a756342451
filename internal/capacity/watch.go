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
	bindEvery = time.Second     // new logs, and those whose settings were changed, are bound this soon
	bindLimit = time.Minute     // for all streams of a store
	healEvery = time.Second     // the disk is tried this often
	healLimit = time.Minute     // for one start
	askLimit  = 2 * time.Second // for how much is used
)

// Store is what is bound.
type Store interface {
	// Bind makes the streams that grow with what is published, or also those that grow with deliveries, take nothing more at
	// a level, and take it again at a lower one. Of all that are bound none has more than share bytes.
	Bind(ctx context.Context, level sluice.StorageLevel, share uint64) error
}

// Disk is what a store in this process lies on.
type Disk interface {
	Intact() context.Context // ends when nothing can be written any more; its cause says why
	Probe() error            // nil if something can be written
	Reopen(ctx context.Context) error
}

// Options is what a Watch needs.
type Options struct {
	Usage func(context.Context) (sluice.Storage, error) // used, limit, free
	Every time.Duration                                 // how often Usage is asked at least
	Store Store
	Disk  Disk // nil: the store is elsewhere
	Log   *slog.Logger
}

// Watch keeps a store within its room. Its methods may be called at once.
type Watch struct {
	opts Options

	mu    sync.Mutex
	level sluice.StorageLevel

	bound  sluice.StorageLevel // that the streams are bound for; only Run looks at these
	next   time.Time           // when they are looked at again
	failed bool                // the last time they could not be bound
}

// New returns a watch that does nothing before Run.
func New(opts Options) *Watch { return &Watch{opts: opts} }

// Level returns how much room there is.
func (w *Watch) Level() sluice.StorageLevel {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.level
}

// Grow returns nil if the store may grow by what is no event: else code Unavailable, with what to do.
func (w *Watch) Grow() error {
	if level := w.Level(); level >= sluice.StorageScarce {
		return level.Problem()
	}
	return nil
}

// Whole returns nil if the store can write: else code Unavailable, with what to do.
func (w *Watch) Whole() error {
	if level := w.Level(); level >= sluice.StorageBroken {
		return level.Problem()
	}
	return nil
}

// Run watches until ctx is done.
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

// broke returns a channel that is closed when the store can no longer write; nil if that is not known of it.
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

// look finds out how much room there is, binds the streams accordingly, and returns when to look again.
func (w *Watch) look(ctx context.Context) (again time.Duration) {
	limit, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	usage, err := w.opts.Usage(limit)
	if err != nil || ctx.Err() != nil {
		return w.opts.Every // who asks for it learns that
	}
	was := w.Level()
	is := Next(was, usage)
	if is != was {
		w.enter(ctx, is, usage)
	}
	if is != w.bound || (w.failed || is > sluice.StorageAmple) && !time.Now().Before(w.next) {
		w.bind(ctx, is, usage)
	}
	return Again(is, usage, w.opts.Every)
}

// bind has the streams take what they may. While they are bound they are looked at again and again, and seldom if that takes
// long: logs are made, and the settings of others changed.
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

// enter says that there is less room now, or more.
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

// complain logs what is refused from now on.
func (w *Watch) complain(ctx context.Context, level sluice.StorageLevel, attrs ...slog.Attr) {
	attrs = append(attrs, slog.String("level", level.String()), slog.String("problem", level.Problem().Message))
	w.opts.Log.LogAttrs(ctx, slog.LevelError, "the store is at its limit", attrs...)
}

// heal waits, if the store cannot write, until it can, and starts it again.
func (w *Watch) heal(ctx context.Context) {
	failure := w.failure() //nolint:contextcheck // it asks a context of the disk's
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
	w.set(sluice.StorageAmple) // until the look that follows
	w.next = time.Time{}
	w.opts.Log.LogAttrs(ctx, slog.LevelWarn, "the disk accepts writes again; the store was restarted")
}

var errStopping = errors.New("the server is being stopped")

// reopen starts the store again if the disk takes files.
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
