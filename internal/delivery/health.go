package delivery

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/sluice-io/sluice/internal/delivery/breaker"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/shutdown"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Minimum times for the health to be stored across a restart.
const (
	failingNoted = time.Minute     // how long every attempt has failed
	holdNoted    = 5 * time.Second // remaining time of a Retry-After
)

// classify returns what an attempt says about the endpoint.
func classify(a *sluice.Attempt) breaker.Outcome {
	switch {
	case a == nil || a.Outcome == sluice.Refused:
		return breaker.Nothing
	case a.Outcome == sluice.Failed && (a.Status == 0 || a.Status >= 500 || a.Status == http.StatusTooManyRequests):
		return breaker.Trouble
	}
	return breaker.Well
}

// recordOutcome reports the outcome of a task to the breaker.
func (r *runner) recordOutcome(ctx context.Context, l *lane, a *sluice.Attempt) {
	if r.heard(l, a, time.Now(), rand.Float64()) { //nolint:gosec // jitter, not a secret
		r.tellBreaker(ctx)
	}
}

// tellBreaker announces a change of the breaker's state.
func (r *runner) tellBreaker(ctx context.Context) {
	level := slog.LevelInfo
	if r.breaker.State() == sluice.BreakerOpen {
		level = slog.LevelWarn
	}
	r.log.LogAttrs(ctx, level, "breaker", slog.String("subscription", r.id), slog.String("state", string(r.breaker.State())),
		slog.Duration("pause", r.breaker.Pause()))
	r.observe.Turned(r.sub, r.breaker.State())
	if again := r.breaker.State() == sluice.BreakerOpen && r.breaker.Spell() == r.opened; !again && r.breaker.State() != sluice.BreakerHalfOpen {
		r.opened = r.breaker.Spell()
		r.ports.Announce.Turned(r.sub, r.breaker.State(), time.Now())
	}
}

// judge tracks continuous failure, announces its progress, and disables the subscription after too
// much of it.
func (r *runner) judge(ctx context.Context, a *sluice.Attempt) error {
	before := r.failing
	is, how := before.Judge(a, r.sub.Policy.DisableAfter.Std(), time.Now())
	r.failing = is
	if how == breaker.EndpointGone {
		r.breaker = r.breaker.Reset() // its state has no use any more
		return errGone
	}
	if is.Alerted > before.Alerted {
		r.alert(ctx)
	}
	if how != breaker.TooLong {
		return nil
	}
	r.failing = breaker.Failing{} // a resumed subscription starts counting again
	return r.ports.Registry.DisableFailing(ctx, r.sub, "every attempt has failed since "+is.Since.UTC().Format(time.RFC3339))
}

// alert announces the progress of continuous failure.
func (r *runner) alert(ctx context.Context) {
	since, reached := r.failing.Since, r.failing.Alerted
	r.log.LogAttrs(ctx, slog.LevelWarn, "every attempt fails", slog.String("subscription", r.id),
		slog.Int("percent", reached), slog.Time("since", since), slog.Time("disabled_at", since.Add(r.sub.Policy.DisableAfter.Std())))
	r.observe.Failing(r.sub, reached, since)
	r.ports.Announce.Failing(r.sub, reached, since)
}

// health returns the health to store now; zero if all is well.
func (r *runner) health(now time.Time) (h model.Health) {
	if !r.breaker.Closed() {
		h.Breaker, h.Pause = r.breaker.State(), sluice.Duration(r.breaker.Pause())
	}
	if h.Breaker == sluice.BreakerOpen {
		h.ProbeAt = stamp(r.breaker.ProbeAt())
	}
	if r.breaker.Held().Sub(now) > holdNoted {
		h.HeldUntil = stamp(r.breaker.Held())
	}
	if f := r.failing; !f.Since.IsZero() && (h.Breaker != "" || f.Alerted > 0 || now.Sub(f.Since) >= failingNoted) {
		h.FailingSince, h.Alerted = stamp(f.Since), f.Alerted
	}
	if h != (model.Health{}) {
		h.Revision = r.sub.Revision
	}
	return h
}

// stamp returns a time as it is after a round trip through the store.
func stamp(t time.Time) time.Time { return t.Round(0).UTC() }

// restoreHealth restores the stored health. If the subscription was changed or resumed meanwhile,
// it sends at once, and continuous failure counts from now.
func (r *runner) restoreHealth(ctx context.Context) error {
	first, err := r.record.recall(ctx, r.sub)
	if err != nil || !first {
		return err
	}
	h := r.record.stored
	if h.Revision != r.sub.Revision { // probe at once whether the endpoint works now
		r.breaker = breakerOf(model.Health{Breaker: h.Breaker, ProbeAt: time.Now()})
		return nil
	}
	if r.failing = (breaker.Failing{Since: h.FailingSince, Alerted: h.Alerted}); h.Alerted > 0 {
		r.ports.Announce.StillFailing(r.sub, h.Alerted, h.FailingSince)
	}
	r.breaker = breakerOf(h)
	r.opened = r.breaker.Spell()
	return nil
}

// breakerOf returns the breaker of a stored health. A breaker that was half-open becomes open, so
// that it probes first.
func breakerOf(h model.Health) breaker.Breaker {
	var b breaker.Breaker
	if h.Breaker == sluice.BreakerOpen || h.Breaker == sluice.BreakerHalfOpen {
		b = breaker.Opened(h.ProbeAt, h.Pause.Std())
	}
	return b.Hold(h.HeldUntil)
}

// storeHealth starts to store a change of the subscription's health. It makes at most one write in
// saveEvery, and none while all is well.
func (r *runner) storeHealth(work context.Context) {
	if write := r.record.begin(work, r.sub, r.health(time.Now())); write != nil {
		r.executor.busy.Go(write)
	}
}

// healthWritten applies the outcome of a write, and starts the pause before the next one.
func (r *runner) healthWritten(ctx context.Context, s healthStored) {
	if err := r.record.end(s); err != nil {
		r.log.WarnContext(ctx, "health not stored yet", slog.String("subscription", r.id), slog.Any("error", err))
	}
}

// leave stores the health for the next process that serves the subscription.
func (r *runner) leave(work context.Context) {
	limit, cancel := context.WithTimeout(work, lastLook)
	defer cancel()
	if r.record.writing() {
		select {
		case s := <-r.record.outcomes:
			r.healthWritten(work, s)
		case <-limit.Done():
			return
		}
	}
	h := r.health(time.Now())
	if h == r.record.stored {
		return
	}
	if err := r.record.put(limit, r.sub, h); err != nil && !shutdown.Left(work, "states of endpoints", 1) {
		r.log.WarnContext(work, "health not stored", slog.String("subscription", r.id), slog.Any("error", err))
	}
}
