package delivery

import (
	"context"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/shutdown"
	"github.com/sluice-io/sluice/internal/supervise"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// replays is the engine's state of replays. Only the goroutine of follow uses all.
type replays struct {
	all     map[string]sluice.Replay // running replays, by id
	serving supervise.Set[*served]   // by id
}

// of returns the replays of a subscription.
func (r *replays) of(subscription string) (all []sluice.Replay) {
	for _, rep := range r.all {
		if rep.Subscription == subscription {
			all = append(all, rep)
		}
	}
	return all
}

// changeReplay applies a reported replay: it starts a running one, and leaves one that has ended.
func (e *Engine) changeReplay(ctx context.Context, rep sluice.Replay, gone bool, subs map[string]*sluice.Subscription) { //nolint:revive // gone comes from the watch
	if !gone && rep.State == sluice.ReplayRunning {
		e.replays.all[rep.ID] = rep
		e.applyReplay(ctx, rep, subs[rep.Subscription])
		return
	}
	if _, ran := e.replays.all[rep.ID]; !ran {
		return
	}
	e.leaveReplay(ctx, rep)
}

// leaveReplay stops a replay that has ended and deletes its lanes.
func (e *Engine) leaveReplay(ctx context.Context, rep sluice.Replay) {
	delete(e.replays.all, rep.ID)
	e.clearReplay(ctx, rep, e.replays.serving.Stop(rep.ID))
}

// applyReplay starts or stops a replay's runner, as the state of its subscription requires. If the
// subscription is not known yet, or only from before it was moved or created again, its report
// applies the replay later: subscriptions and replays are reported independently.
func (e *Engine) applyReplay(ctx context.Context, rep sluice.Replay, sub *sluice.Subscription) {
	owned := sub != nil && e.owned(model.LeaseKey(sub))
	s, serving := e.replays.serving.Get(rep.ID)
	switch {
	case owned && rep.Began.After(sub.Began()):
		e.replays.serving.Stop(rep.ID)
	case owned && (sub.State == sluice.Cancelled || !sub.Began().Equal(rep.Began)):
		e.replays.serving.Stop(rep.ID)
		e.endReplay(ctx, rep)
	case !owned || sub.Mode != sluice.Push || sub.State != sluice.Active:
		e.replays.serving.Stop(rep.ID)
	case serving:
		s.runner.mailbox.change(sub)
	default:
		e.startReplay(ctx, rep, sub)
	}
}

func (e *Engine) startReplay(ctx context.Context, rep sluice.Replay, sub *sluice.Subscription) {
	r := newReplaying(rep, e.ports, e.opts.Log)
	r.works = func() { e.proved(ctx, sub.ID) }
	s := &served{runner: r.runner(sub, e), replay: r}
	run := func(inner context.Context) {
		if rep.Acts() {
			e.perform(inner, r)
			return
		}
		if e.retryNow(inner, &rep) {
			e.conclude(inner, sub.ID, func(ctx context.Context) error {
				return r.finish(ctx, sluice.ReplayDone, "the next attempt of its parked lane was brought forward")
			})
			return
		}
		if inner.Err() != nil {
			return
		}
		e.keep(inner, s.runner)
	}
	e.replays.serving.Start(ctx, rep.ID, func(inner context.Context) (*served, func()) { return s, func() { run(inner) } })
}

// conclude stores that a replay is done. It retries until that succeeds or ctx ends.
func (e *Engine) conclude(ctx context.Context, subscription string, conclude func(context.Context) error) {
	err := backoff.Retry(func() error { return conclude(ctx) },
		backoff.WithContext(backoff.NewExponentialBackOff(backoff.WithMaxElapsedTime(0)), ctx))
	if err != nil {
		e.opts.Log.WarnContext(ctx, "replay not ended", slog.String("subscription", subscription), slog.Any("error", err))
	}
}

// leaveReplaysOf leaves the replays of a subscription that is gone. Later ones are of a subscription
// with its ID that is not known yet.
func (e *Engine) leaveReplaysOf(ctx context.Context, sub *sluice.Subscription) {
	for _, rep := range e.replays.of(sub.ID) {
		if !rep.Began.After(sub.Began()) {
			e.leaveReplay(ctx, rep)
		}
	}
}

// endReplay stores, in the background, that a replay has ended with its subscription.
func (e *Engine) endReplay(ctx context.Context, rep sluice.Replay) {
	e.serving.Go(func() {
		limit, cancel := context.WithTimeout(ctx, recordLimit)
		defer cancel()
		if err := newReplaying(rep, e.ports, e.opts.Log).finish(limit, sluice.ReplayCancelled, "its subscription ended or was moved"); err != nil && sluice.CodeOf(err) != sluice.NotFound {
			e.opts.Log.WarnContext(limit, "replay not ended yet", slog.String("replay", rep.ID), slog.Any("error", err))
		}
	})
}

// clearReplay deletes the lanes of a replay that has ended, in the background, after the replay's
// runner has ended. There may be no runner, because the replays of a paused subscription have none.
// Then the process that owns the replay deletes the lanes at once, and every other process later,
// in case no process owns the replay.
func (e *Engine) clearReplay(ctx context.Context, rep sluice.Replay, ended <-chan struct{}) {
	var others <-chan time.Time
	if ended == nil && !e.owned(rep.Subscription) {
		others = time.After(sweepLooks * e.opts.LookEvery)
	}
	e.serving.Go(func() {
		switch {
		case ended != nil:
			<-ended
		case others != nil:
			select {
			case <-others:
			case <-ctx.Done():
				return
			}
		}
		limit, cancel := context.WithTimeout(shutdown.Lasting(ctx), recordLimit)
		defer cancel()
		if err := e.ports.Replays.Forget(limit, streams.ReplayLanes(rep.ID)); err != nil {
			e.opts.Log.WarnContext(limit, "lanes of a replay not removed", slog.String("replay", rep.ID), slog.Any("error", err))
		}
	})
}
