package delivery

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-io/sluice/internal/filter"
	"github.com/sluice-io/sluice/internal/shutdown"
	"github.com/sluice-io/sluice/pkg/sluice"
)

const (
	lastLook   = 2 * time.Second // timeout of a runner's last scan and writes
	sweepLooks = 6               // subscriptions that are not served are scanned less often by this factor
	sweepLimit = 10 * time.Second

	lookPatience = 200 * time.Millisecond // how long a scan waits for an expensive filter, or a payer over its rate
)

// expiryScan writes dead letters for events that left the log before their delivery (S4-25).
type expiryScan struct {
	sub   *sluice.Subscription
	match *filter.Matcher // nil: unknown
	ports Deps
	opts  Options
}

// before scans the events of a subscription that no process serves.
func (l expiryScan) before(ctx context.Context) error {
	return l.ports.Sources.Look(ctx, l.sub, l.wanting(ctx), l.bury(ctx))
}

func (l expiryScan) wanting(ctx context.Context) func(*sluice.Event) bool {
	return func(ev *sluice.Event) bool { return l.wants(ctx, ev) }
}

func (l expiryScan) wants(ctx context.Context, ev *sluice.Event) bool {
	if !l.sub.Pattern.Match(ev.Path) {
		return false
	}
	if l.match == nil {
		return true // as without an answer
	}
	ctx, cancel := context.WithTimeout(ctx, lookPatience)
	defer cancel()
	ok, known, err := l.ports.Filters.Wait(ctx, l.ports.payer(l.sub), l.match, ev)
	return ok || !known || err != nil // without an answer the event counts as wanted
}

func (l expiryScan) bury(ctx context.Context) func(from, to uint64) error {
	return func(from, to uint64) error {
		d := deadLetterOf(l.sub, &sluice.Event{Seq: from}, sluice.Attempt{Error: "left the log before it was fetched"}, sluice.Expired)
		d.LastSeq = to
		if err := l.ports.Log.Bury(ctx, d); err != nil {
			return err
		}
		l.opts.Observe.Buried(l.sub, d.Reason)
		l.opts.Log.LogAttrs(ctx, slog.LevelWarn, "events left the log before they were fetched",
			slog.String("subscription", l.sub.ID), slog.Uint64("from", from), slog.Uint64("to", to))
		return nil
	}
}

// behind scans the events that an open source has not handed out yet. If it fails, the next scan
// finds the same events.
func (l expiryScan) behind(ctx context.Context, source Source, limit time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if err := source.Look(ctx, l.wanting(ctx), l.bury(ctx)); err != nil && !shutdown.Left(ctx, "scan for events that left the log", 1) {
		l.opts.Log.WarnContext(ctx, "scan for events that left the log failed", slog.String("subscription", l.sub.ID), slog.Any("error", err))
	}
}

// lookout makes the scans of a runner, one at a time.
type lookout struct {
	every   time.Duration
	looking sync.Mutex
	scan    atomic.Pointer[expiryScan] // with the current settings
}

// aside scans in another goroutine, unless a scan is in progress.
func (l *lookout) aside(work context.Context, source Source, busy *sync.WaitGroup) {
	if l.looking.TryLock() {
		busy.Go(func() {
			defer l.looking.Unlock()
			l.scan.Load().behind(work, source, holdEvery)
		})
	}
}

// last scans once more, after a scan in progress.
func (l *lookout) last(work context.Context, source Source) {
	l.looking.Lock()
	defer l.looking.Unlock()
	l.scan.Load().behind(work, source, lastLook)
}

// Expire writes dead letters for the events of a subscription that left the log before their
// delivery. It does nothing for an active one: its runner scans a last time when it ends.
func (e *Engine) Expire(ctx context.Context, sub *sluice.Subscription) error {
	if sub.State == sluice.Active {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, sweepLimit)
	defer cancel()
	match, err := e.ports.Filters.Compile(ctx, e.ports.payer(sub), sub.Filter, e.ports.Labels)
	if err != nil && sluice.CodeOf(err) != sluice.InvalidRequest { // an expression that does not compile decides nothing
		return err
	}
	return expiryScan{sub: sub, match: match, ports: e.ports, opts: e.opts}.before(ctx)
}

// sweep scans the events of subscriptions that are not active, because these leave the log, too.
func (e *Engine) sweep(ctx context.Context, subs []*sluice.Subscription) {
	for _, sub := range subs {
		err := e.Expire(ctx, sub)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			e.opts.Log.WarnContext(ctx, "scan for events that left the log failed", slog.String("subscription", sub.ID), slog.Any("error", err))
		}
	}
}
