package wake

import (
	"context"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/sluice-io/sluice/internal/shutdown"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Withdraw cancels the notices in flight for every subscription for which lost returns true. It
// returns when no more of them can leave. The caller must have updated the gate before.
func (e *Engine) Withdraw(ctx context.Context, lost func(*sluice.Subscription) bool) error {
	return e.flights.Cut(lost).Wait(ctx)
}

// revoke starts to cancel a subscription that lost its access (S0-64), and returns. Until the
// subscription is cancelled, the gate blocks it. If the engine ends before that, the next check of
// the subscription revokes it again.
func (e *Engine) revoke(ctx context.Context, sub *sluice.Subscription) {
	e.mu.Lock()
	defer e.mu.Unlock()
	over := e.over
	if _, already := e.revoking[sub.ID]; already || over == nil {
		return
	}
	e.revoking[sub.ID] = struct{}{}
	ctx, cancel := context.WithTimeout(shutdown.Lasting(ctx), time.Minute)
	e.runners.Go(func() {
		defer cancel()
		select {
		case <-over:
		case <-ctx.Done():
		}
	})
	e.runners.Go(func() {
		defer cancel()
		defer e.revoked(sub.ID)
		e.opts.Log.WarnContext(ctx, "access lost", slog.String("subscription", sub.ID), slog.String("owner", sub.CreatedBy))
		err := backoff.Retry(func() error {
			_, err := e.ports.Registry.Revoke(ctx, sub)
			return err
		},
			backoff.WithContext(backoff.NewExponentialBackOff(backoff.WithInitialInterval(againFirst), backoff.WithMaxInterval(againMost)), ctx))
		if err != nil { // the next check revokes it again
			e.opts.Log.WarnContext(ctx, "subscription without access not cancelled yet", slog.String("subscription", sub.ID), slog.Any("error", err))
		}
	})
}

func (e *Engine) revoked(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.revoking, id)
}
