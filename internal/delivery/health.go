package delivery

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/shutdown"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Shorter times are not stored across a restart.
const (
	failingNoted = time.Minute     // time during which every attempt has failed
	holdNoted    = 5 * time.Second // remaining time of a Retry-After
)

// classify returns an attempt's evidence about the endpoint.
func classify(a *sluice.Attempt) outcomeClass {
	switch {
	case a == nil || a.Outcome == sluice.Refused:
		return saidNothing
	case a.Outcome == sluice.Failed && (a.Status == 0 || a.Status >= 500 || a.Status == http.StatusTooManyRequests):
		return saidTrouble
	}
	return saidWell
}

// markProbe enters that a task with a request is handed out.
func (r *runner) markProbe(t *task) {
	l := t.lane
	l.asks = t.kind == taskSend || t.kind == taskResume
	if !l.asks {
		return
	}
	if !r.breaker.closed() && !r.breaker.isCurrent(l.spared) {
		t.spare = r.breaker.next()
	}
	l.epoch = r.breaker.epoch
	r.breaker = r.breaker.began()
}

// recordOutcome reports the outcome of a task to the breaker.
func (r *runner) recordOutcome(ctx context.Context, l *lane, a *sluice.Attempt) {
	if !l.asks {
		return
	}
	l.asks = false
	heard := answer{epoch: l.epoch, lane: l.key, said: classify(a), own: r.breaker.isCurrent(l.spared)}
	if a != nil {
		heard.began, heard.wait = a.StartedAt, a.RetryAfter
		switch {
		case a.Probe:
			l.spared = r.breaker.mark()
		case a.Outcome == sluice.Delivered:
			l.spared = probeMark{}
		}
	}
	r.setBreaker(ctx, r.breaker.ended(heard, r.sub.Policy.Window, time.Now(), rand.Float64())) //nolint:gosec // jitter, not a secret
}

// setBreaker replaces the breaker, and announces a change of its state.
func (r *runner) setBreaker(ctx context.Context, b breaker) {
	before := r.breaker
	r.breaker = b
	if before.closed() && b.closed() || before.state == b.state {
		return
	}
	level := slog.LevelInfo
	if b.state == sluice.BreakerOpen {
		level = slog.LevelWarn
	}
	r.log.LogAttrs(ctx, level, "breaker", slog.String("subscription", r.id), slog.String("state", string(b.state)),
		slog.Duration("pause", b.pause))
	r.observe.Turned(r.sub, b.state)
}

// judge tracks continuous failure and disables the subscription after too much of it.
func (r *runner) judge(ctx context.Context, a *sluice.Attempt) error {
	switch {
	case a == nil:
		return nil
	case a.Verdict.Cancel:
		r.breaker, r.failing, r.alerted = r.breaker.reset(), time.Time{}, 0 // there is nothing to remember
		return errGone
	case a.Outcome == sluice.Delivered:
		r.failing, r.alerted = time.Time{}, 0
		return nil
	case r.failing.IsZero():
		r.failing = time.Now().Add(-a.Duration.Std()) // by the monotonic clock
		return nil
	}
	r.alert(ctx)
	if time.Since(r.failing) <= r.sub.Policy.DisableAfter.Std() {
		return nil
	}
	reason := "every attempt has failed since " + r.failing.UTC().Format(time.RFC3339)
	r.failing, r.alerted = time.Time{}, 0 // a resumed subscription begins anew
	return r.ports.Registry.Disable(ctx, r.sub.ID, reason)
}

// alert announces the progress of continuous failure. Of several steps at once it announces only
// the last.
func (r *runner) alert(ctx context.Context) {
	reached := 0
	after := r.sub.Policy.DisableAfter.Std()
	for _, percent := range []int{50, 70, 90, 100} {
		if time.Since(r.failing) > after/100*time.Duration(percent) {
			reached = percent
		}
	}
	if reached <= r.alerted {
		return
	}
	r.alerted = reached
	r.log.LogAttrs(ctx, slog.LevelWarn, "every attempt fails", slog.String("subscription", r.id),
		slog.Int("percent", reached), slog.Time("since", r.failing), slog.Time("disabled_at", r.failing.Add(after)))
	r.observe.Failing(r.sub, reached, r.failing)
	r.ports.Announce.Failing(r.sub, reached, r.failing)
}

// health returns the state to store now.
func (r *runner) health(now time.Time) (h model.Health) {
	if !r.breaker.closed() {
		h.Breaker, h.Pause = r.breaker.state, sluice.Duration(r.breaker.pause)
	}
	if h.Breaker == sluice.BreakerOpen {
		h.ProbeAt = stamp(r.breaker.probeAt)
	}
	if r.breaker.held.Sub(now) > holdNoted {
		h.HeldUntil = stamp(r.breaker.held)
	}
	if !r.failing.IsZero() && (h.Breaker != "" || r.alerted > 0 || now.Sub(r.failing) >= failingNoted) {
		h.FailingSince, h.Alerted = stamp(r.failing), r.alerted
	}
	if h != (model.Health{}) {
		h.Revision = r.sub.Revision
	}
	return h
}

// stamp returns a time as it is after a round trip through the store.
func stamp(t time.Time) time.Time { return t.Round(0).UTC() }

// restoreHealth restores the stored health. A subscription that was changed or resumed meanwhile sends at
// once, and its failing counts from now.
func (r *runner) restoreHealth(ctx context.Context) error {
	if r.recalled {
		return nil
	}
	h, err := r.ports.Healths.Health(ctx, r.sub)
	if err != nil {
		return err
	}
	r.recalled, r.stored = true, h
	if h.Revision != r.sub.Revision { // resumed, or changed while not served: is the endpoint well now?
		r.breaker = breakerOf(model.Health{Breaker: h.Breaker, ProbeAt: time.Now()})
		return nil
	}
	if r.failing, r.alerted = h.FailingSince, h.Alerted; r.alerted > 0 {
		r.ports.Announce.StillFailing(r.sub, r.alerted, r.failing)
	}
	r.breaker = breakerOf(h)
	return nil
}

// breakerOf returns the stored breaker. A half-open one probes again first.
func breakerOf(h model.Health) breaker {
	b := breaker{held: h.HeldUntil}
	if h.Breaker == sluice.BreakerOpen || h.Breaker == sluice.BreakerHalfOpen {
		b.state, b.probeAt, b.pause = sluice.BreakerOpen, h.ProbeAt, h.Pause.Std()
		b.epoch, b.spell = 1, 1
	}
	return b
}

// storeHealth stores a change of the subscription's health, unless the last write was a moment ago:
// one write a second at most, and none while all is well.
func (r *runner) storeHealth(work context.Context) {
	h := r.health(time.Now())
	if r.storing || h == r.stored {
		return
	}
	r.storing = true
	sub, stores := r.sub, r.stores
	r.workers.Go(func() {
		limit, cancel := context.WithTimeout(work, recordLimit)
		defer cancel()
		stores <- healthStored{health: h, err: r.ports.Healths.PutHealth(limit, sub, h)}
	})
}

// healthStored is the outcome of a write.
type healthStored struct {
	health model.Health
	err    error
}

// healthWritten enters the outcome of a write, and waits before the next.
func (r *runner) healthWritten(ctx context.Context, s healthStored) {
	r.rest = time.After(saveEvery)
	if s.err != nil {
		r.log.WarnContext(ctx, "health not stored yet", slog.String("subscription", r.id), slog.Any("error", s.err))
		return
	}
	r.stored = s.health
}

// leave stores the health for the next process to serve the subscription.
func (r *runner) leave(work context.Context) {
	limit, cancel := context.WithTimeout(work, lastLook)
	defer cancel()
	if r.storing && r.rest == nil {
		select {
		case s := <-r.stores:
			r.healthWritten(work, s)
		case <-limit.Done():
			return
		}
	}
	h := r.health(time.Now())
	if h == r.stored {
		return
	}
	err := r.ports.Healths.PutHealth(limit, r.sub, h)
	if err == nil {
		r.stored = h
	} else if !shutdown.Left(work, "states of endpoints", 1) {
		r.log.WarnContext(work, "health not stored", slog.String("subscription", r.id), slog.Any("error", err))
	}
}

// noHealths remembers nothing.
type noHealths struct{}

// Health returns nothing.
func (noHealths) Health(context.Context, *sluice.Subscription) (model.Health, error) {
	return model.Health{}, nil
}

// PutHealth does nothing.
func (noHealths) PutHealth(context.Context, *sluice.Subscription, model.Health) error { return nil }
