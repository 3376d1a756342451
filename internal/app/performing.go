package app

import (
	"context"

	"github.com/sluice-io/sluice/internal/instruct"
	"github.com/sluice-io/sluice/internal/shutdown"
	"github.com/sluice-io/sluice/internal/underway"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// performing does what is due at a time, and can be told that a right was lost.
type performing struct {
	*instruct.Performer

	under underway.Set[*instruct.Firing]
}

// Perform publishes the event of a firing; code Unavailable if it was cut off, and then its creator's rights are to be asked again.
func (p *performing) Perform(ctx context.Context, f instruct.Firing) (sluice.Stored, error) {
	ctx, leave := p.under.Enter(ctx, &f)
	defer leave()
	stored, err := p.Performer.Perform(ctx, f)
	if err != nil && underway.WasCut(ctx) {
		err = sluice.Errorf(sluice.Unavailable, "rights have changed: they are asked again")
	}
	return stored, err
}

// Withdraw cuts off what is being published for creators of whose instructions lost says true, and returns when nothing of it can be
// stored any more.
func (p *performing) Withdraw(ctx context.Context, lost func(*sluice.Subscription) bool) error {
	return p.under.Cut(func(f *instruct.Firing) bool {
		return lost(f.Creator.Wish(f.Event.Namespace, sluice.Pattern(f.Event.Path)))
	}).Wait(ctx)
}

// begun is a publisher for what can be cut off. What is on its way to the log cannot be called back: whoever cuts it off waits for it. What has not
// begun does not begin.
type begun struct{ publisher }

// Publish stores events.
func (b begun) Publish(ctx context.Context, namespace string, events []sluice.Event) ([]sluice.Stored, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	whole, end := context.WithCancelCause(shutdown.Lasting(ctx))
	defer end(nil)
	stop := context.AfterFunc(ctx, func() {
		if !underway.WasCut(ctx) {
			end(context.Cause(ctx))
		}
	})
	defer stop()
	return b.publisher.Publish(whole, namespace, events)
}
