package action

import (
	"context"

	"github.com/sluice-io/sluice/internal/inflight"
	"github.com/sluice-io/sluice/internal/ingest"
	"github.com/sluice-io/sluice/internal/shutdown"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Revocable performs due actions, and can cancel them when access is revoked.
type Revocable struct {
	*Performer

	under inflight.Set[*Firing]
}

// Perform publishes the event of a firing. Code Unavailable if it was cancelled; then the creator's
// permissions must be checked again.
func (p *Revocable) Perform(ctx context.Context, f Firing) (sluice.Stored, error) {
	ctx, leave := p.under.Enter(ctx, &f)
	defer leave()
	stored, err := p.Performer.Perform(ctx, f)
	if err == nil || !inflight.WasCut(ctx) {
		return stored, err
	}
	cut := error(sluice.Errorf(sluice.Unavailable, "permissions changed; checking again"))
	if Sent(err) {
		cut = sentError{cut}
	}
	return stored, cut
}

// Withdraw cancels the firings for which lost returns true, given their creator and path. It
// returns when none of them can store its event any more.
func (p *Revocable) Withdraw(ctx context.Context, lost func(*sluice.Subscription) bool) error {
	return p.under.Cut(func(f *Firing) bool {
		return lost(f.Creator.Wish(f.Event.Namespace, sluice.Pattern(f.Event.Path)))
	}).Wait(ctx)
}

// Cancellable is a publisher whose publishes can be cancelled. A publish that is in flight to the
// log cannot be undone, so Withdraw waits for it. No publish starts with a cancelled context.
type Cancellable struct{ ingest.Publisher }

// Publish stores events. A context that Withdraw cancels does not abort a publish in flight.
func (c Cancellable) Publish(ctx context.Context, namespace string, events []sluice.Event) ([]sluice.Stored, error) {
	if err := ctx.Err(); err != nil {
		return nil, unsentError{err}
	}
	whole, end := context.WithCancelCause(shutdown.Lasting(ctx))
	defer end(nil)
	stop := context.AfterFunc(ctx, func() {
		if !inflight.WasCut(ctx) {
			end(context.Cause(ctx))
		}
	})
	defer stop()
	return c.Publisher.Publish(whole, namespace, events)
}

// Watched performs the actions of watches, in the form that package watch needs.
type Watched struct{ Performer *Performer }

// Perform publishes the event of an action. Its errors are those of Performer.Perform.
func (w Watched) Perform(ctx context.Context, by sluice.Creator, ev sluice.Event) error {
	_, err := w.Performer.Perform(ctx, Firing{Creator: by, Event: ev})
	return err
}
