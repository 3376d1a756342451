package export

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/gofrs/flock"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Source provides events.
type Source interface {
	// TailEvents calls each for a namespace's events after a sequence in log order, and then for
	// new ones, until each returns an error, ctx ends or the log fails.
	TailEvents(ctx context.Context, namespace string, after uint64, each func(sluice.Event) error) error
	// WatchLogs reports each namespace with its creation time, and then every change, until ctx
	// ends. The zero time means that the namespace was deleted.
	WatchLogs(ctx context.Context, change func(name string, since time.Time)) error
	// Incarnations returns the ID of a namespace's log, and the ID that it had in the backup from
	// which it was restored; "" if it was not restored.
	Incarnations(ctx context.Context, namespace string) (is, was string, err error)
}

// Letters provides dead letters.
type Letters interface {
	// TailDeadLetters does what Source.TailEvents does, for the dead letters of all subscriptions.
	TailDeadLetters(ctx context.Context, after uint64, each func(model.BuriedLetter) error) error
	// LetterIncarnations does what Source.Incarnations does, for the stream of dead letters.
	LetterIncarnations(ctx context.Context) (is, was string, err error)
}

// Kinds of exported records, for observers.
const (
	Events      = "events"
	DeadLetters = "dead_letters"
)

// Observer receives events for metrics. Each call returns at once.
type Observer interface {
	Exported(what string, n int)
	ExportFailed(what string)
}

// Options are an exporter's optional settings.
type Options struct {
	Observe Observer      // default: none
	Log     *slog.Logger  // default: slog.DiscardHandler
	Pause   time.Duration // before the first retry; default: half a second

	Lost func(namespace string) []sluice.Gap // ranges of a log that are lost to damage; nil: none are
	Look time.Duration                       // interval of checking Lost; default: ten seconds
}

const (
	longestPause = 30 * time.Second
	lockFile     = ".export.lock"
)

// Exporter writes dead letters and events below a directory.
type Exporter struct {
	dir     string
	source  Source
	letters Letters
	opts    Options
}

// New returns an exporter, which does nothing until Run.
func New(dir string, source Source, letters Letters, opts Options) *Exporter {
	if opts.Observe == nil {
		opts.Observe = nobody{}
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	if opts.Lost == nil {
		opts.Lost = func(string) []sluice.Gap { return nil }
	}
	opts.Pause, opts.Look = cmp.Or(opts.Pause, 500*time.Millisecond), cmp.Or(opts.Look, 10*time.Second)
	return &Exporter{dir: dir, source: source, letters: letters, opts: opts}
}

// Run exports until ctx is done, and then returns nil. It logs and retries failures of any kind. If
// another process exports to the directory, Run waits until that ends.
func (e *Exporter) Run(ctx context.Context) error {
	e.keep(ctx, DeadLetters, func(ctx context.Context, _ func()) error { return e.locked(ctx) })
	return nil
}

// locked exports while it holds the lock of the directory.
func (e *Exporter) locked(ctx context.Context) (err error) {
	if err := os.MkdirAll(e.dir, dirMode); err != nil {
		return err
	}
	lock := flock.New(filepath.Join(e.dir, lockFile))
	ok, err := lock.TryLock()
	if err == nil && !ok {
		err = errors.New("another process exports to the directory")
	}
	if err != nil {
		return fmt.Errorf("%s: %w", e.dir, err)
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	root, err := os.OpenRoot(e.dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	var running sync.WaitGroup
	running.Go(func() {
		e.keep(ctx, DeadLetters, func(ctx context.Context, went func()) error { return e.exportLetters(ctx, root, went) })
	})
	running.Go(func() { e.exportLogs(ctx, root) })
	running.Wait()
	return nil
}

// exportLogs exports the log of every namespace while it exists.
func (e *Exporter) exportLogs(ctx context.Context, root *os.Root) {
	var logs sync.WaitGroup
	defer logs.Wait()
	type export struct {
		since time.Time
		stop  func() // stops the export and waits for its end
	}
	exports := map[string]export{}
	e.keep(ctx, Events, func(ctx context.Context, _ func()) error {
		return e.source.WatchLogs(ctx, func(name string, since time.Time) {
			if old, ok := exports[name]; ok {
				if old.since.Equal(since) {
					return
				}
				old.stop()
				delete(exports, name)
			}
			if since.IsZero() {
				return
			}
			inner, cancel := context.WithCancel(ctx)
			ended := make(chan struct{})
			exports[name] = export{since, func() { cancel(); <-ended }}
			logs.Go(func() {
				defer close(ended)
				defer cancel()
				e.keep(inner, Events, func(ctx context.Context, went func()) error { return e.exportLog(ctx, root, name, since, went) })
			})
		})
	})
}

// exportLog exports a namespace's log, continuing its files.
func (e *Exporter) exportLog(ctx context.Context, root *os.Root, namespace string, since time.Time, went func()) (err error) {
	is, was, err := e.source.Incarnations(ctx, namespace)
	if err != nil {
		return err
	}
	log, err := openLog(root, namespace, since, identity{is, was})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.close()) }()
	log.lost = func() []sluice.Gap { return e.opts.Lost(namespace) }
	look := time.NewTicker(e.opts.Look)
	defer look.Stop()
	read := func(ctx context.Context, each func(sluice.Event) error) error {
		return e.source.TailEvents(ctx, namespace, log.at.Seq, each)
	}
	return pump(ctx, read, func(events []sluice.Event) error {
		if err := log.write(events); err != nil {
			return fmt.Errorf("events of %s: %w", namespace, err)
		}
		went()
		e.opts.Observe.Exported(Events, len(events))
		return nil
	}, func(ev sluice.Event) int { return len(ev.Data) }, timer{look.C, func() error { return log.noteGaps(log.at.Seq) }})
}

// exportLetters exports the dead letters, continuing their files.
func (e *Exporter) exportLetters(ctx context.Context, root *os.Root, went func()) error {
	is, was, err := e.letters.LetterIncarnations(ctx)
	if err != nil {
		return err
	}
	letters, err := openLetters(root, identity{is, was})
	if err != nil {
		return err
	}
	read := func(ctx context.Context, each func(model.BuriedLetter) error) error {
		return e.letters.TailDeadLetters(ctx, letters.at.Seq, each)
	}
	return pump(ctx, read, func(batch []model.BuriedLetter) error {
		if err := letters.write(batch); err != nil {
			return fmt.Errorf("dead letters: %w", err)
		}
		went()
		e.opts.Observe.Exported(DeadLetters, len(batch))
		return nil
	}, func(d model.BuriedLetter) int {
		if d.Event == nil {
			return 0
		}
		return len(d.Event.Data)
	}, timer{})
}

// keep repeats a call until ctx is done, with a backoff that resets on progress.
func (e *Exporter) keep(ctx context.Context, what string, do func(ctx context.Context, went func()) error) {
	wait := backoff.NewExponentialBackOff(backoff.WithInitialInterval(e.opts.Pause),
		backoff.WithMaxInterval(longestPause), backoff.WithMaxElapsedTime(0))
	for {
		err := do(ctx, wait.Reset)
		if ctx.Err() != nil {
			return
		}
		again := wait.NextBackOff()
		e.opts.Observe.ExportFailed(what)
		e.opts.Log.LogAttrs(ctx, slog.LevelWarn, "export stopped",
			slog.String("what", what), slog.Any("error", err), slog.Duration("again", again))
		select {
		case <-ctx.Done():
			return
		case <-time.After(again):
		}
	}
}

type nobody struct{}

func (nobody) Exported(string, int) {}
func (nobody) ExportFailed(string)  {}
