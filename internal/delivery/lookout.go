package delivery

import (
	"context"
	"log/slog"
	"time"

	"github.com/sluice-io/sluice/internal/filter"
	"github.com/sluice-io/sluice/internal/shutdown"
	"github.com/sluice-io/sluice/pkg/sluice"
)

const (
	lastLook   = 2 * time.Second // time limit of a runner's last look
	sweepLooks = 6               // subscriptions that are not served are checked less often by this factor
	sweepLimit = 10 * time.Second

	lookPatience = 200 * time.Millisecond // for an expensive filter, or a payer over its rate
)

// expiryScan writes dead letters for events that left the log before their delivery (S4-25).
type expiryScan struct {
	sub   *sluice.Subscription
	match *filter.Matcher
	ports Deps
	opts  Options
}

// before checks a subscription that no process serves.
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
	ctx, cancel := context.WithTimeout(ctx, lookPatience)
	defer cancel()
	ok, known, err := l.ports.Filters.Wait(ctx, l.ports.payer(l.sub), l.match, ev)
	return ok || !known || err != nil // an event without an answer is not skipped
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

// scanExpired checks the events that the runner's source still has to hand out. If it fails, the next look
// finds the same.
func (r *runner) scanExpired(ctx context.Context, limit time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	l := r.watched.Load()
	if err := r.source.Look(ctx, l.wanting(ctx), l.bury(ctx)); err != nil && !shutdown.Left(ctx, "scan for events that left the log", 1) {
		r.log.WarnContext(ctx, "scan for events that left the log failed", slog.String("subscription", r.id), slog.Any("error", err))
	}
}

// sweep checks subscriptions that are paused or disabled: their events age all the same.
func (e *Engine) sweep(ctx context.Context, subs []*sluice.Subscription) {
	for _, sub := range subs {
		limit, cancel := context.WithTimeout(ctx, sweepLimit)
		match, err := e.ports.Filters.Compile(limit, e.ports.payer(sub), sub.Filter, e.ports.Labels)
		if err == nil {
			err = expiryScan{sub: sub, match: match, ports: e.ports, opts: e.opts}.before(limit)
		}
		cancel()
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			e.opts.Log.WarnContext(ctx, "scan for events that left the log failed", slog.String("subscription", sub.ID), slog.Any("error", err))
		}
	}
}
