package wake

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// errWithdrawn is why a notice under way is cut off.
var errWithdrawn = errors.New("access may have been lost")

// flights are the notices under way. One is known here before the gate is asked about it: so of a revocation and a
// notice that happen at once, either the gate knows of the one or Withdraw of the other.
type flights struct {
	mu  sync.Mutex
	all map[*flight]struct{}
}

type flight struct {
	sub  *sluice.Subscription
	cut  context.CancelCauseFunc
	over chan struct{}
}

func (fs *flights) enter(sub *sluice.Subscription, cut context.CancelCauseFunc) *flight {
	f := &flight{sub: sub, cut: cut, over: make(chan struct{})}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.all == nil {
		fs.all = map[*flight]struct{}{}
	}
	fs.all[f] = struct{}{}
	return f
}

func (fs *flights) leave(f *flight) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	delete(fs.all, f)
	close(f.over)
}

func (fs *flights) of(lost func(*sluice.Subscription) bool) []*flight {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	var found []*flight
	for f := range fs.all {
		if lost(f.sub) {
			found = append(found, f)
		}
	}
	return found
}

// Withdraw cuts off the notices under way to every subscription for which lost says true, and returns when nothing of
// them can leave any more. Whoever calls it has told the gate before.
func (e *Engine) Withdraw(ctx context.Context, lost func(*sluice.Subscription) bool) error {
	cut := e.flights.of(lost)
	for _, f := range cut {
		f.cut(errWithdrawn)
	}
	for n, f := range cut {
		select {
		case <-f.over:
		case <-ctx.Done():
			return fmt.Errorf("cut off %d notices, of which %d may be under way still: %w", len(cut), len(cut)-n, ctx.Err())
		}
	}
	return nil
}

// revoke cancels a subscription that lost its access (S0-64), in its own time: until then the gate keeps it back. It ends
// with the engine: whoever looks at the subscription next says it again.
func (e *Engine) revoke(ctx context.Context, sub *sluice.Subscription) {
	e.mu.Lock()
	defer e.mu.Unlock()
	over := e.over
	if _, already := e.revoking[sub.ID]; already || over == nil {
		return
	}
	e.revoking[sub.ID] = struct{}{}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	e.ended.Go(func() {
		defer cancel()
		select {
		case <-over:
		case <-ctx.Done():
		}
	})
	e.ended.Go(func() {
		defer cancel()
		defer e.revoked(sub.ID)
		e.opts.Log.WarnContext(ctx, "access was lost: the subscription is cancelled", slog.String("subscription", sub.ID))
		err := backoff.Retry(func() error { return e.ports.Registry.Cancel(ctx, sub.ID, sluice.ReasonAccessRevoked) },
			backoff.WithContext(backoff.NewExponentialBackOff(backoff.WithInitialInterval(againFirst), backoff.WithMaxInterval(againMost)), ctx))
		if err != nil { // whoever looks at it next says it again
			e.opts.Log.WarnContext(ctx, "subscription without access is not cancelled yet", slog.String("subscription", sub.ID), slog.Any("error", err))
		}
	})
}

func (e *Engine) revoked(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.revoking, id)
}
