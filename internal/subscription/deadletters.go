package subscription

import (
	"context"

	"github.com/sluice-io/sluice/internal/ledger"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// DeadLetterStore reads dead letters.
type DeadLetterStore interface {
	ListDeadLetters(ctx context.Context, sub *sluice.Subscription, q model.DeadLetterQuery) ([]model.BuriedLetter, uint64, error)
	CountDeadLetters(ctx context.Context, sub *sluice.Subscription) (uint64, error)
	// DeadLetter returns the dead letter of an event. Code NotFound.
	DeadLetter(ctx context.Context, sub *sluice.Subscription, event string) (model.BuriedLetter, error)
	Redrivable(ctx context.Context, sub *sluice.Subscription) (model.Redrivable, error)
}

// Discarder deletes dead letters.
type Discarder interface {
	Discard(ctx context.Context, sub *sluice.Subscription, event string) error
	DiscardAll(ctx context.Context, sub *sluice.Subscription) error
}

// DeadLetters implements the API's operations on dead letters. It writes the ledger entry of a
// deletion first.
type DeadLetters struct {
	DeadLetterStore

	Discarder Discarder
	Ledger    *ledger.Ledger
}

// Discard deletes the dead letter of an event. Code NotFound.
func (d DeadLetters) Discard(ctx context.Context, sub *sluice.Subscription, event, by string) error {
	letter, err := d.DeadLetter(ctx, sub, event)
	if err != nil {
		return err
	}
	letter.Event = nil
	return d.accounted(ctx, sub, by, letter.DeadLetter, func() error { return d.Discarder.Discard(ctx, sub, event) })
}

// DiscardAll deletes all dead letters of a subscription.
func (d DeadLetters) DiscardAll(ctx context.Context, sub *sluice.Subscription, by string) error {
	n, err := d.CountDeadLetters(ctx, sub)
	if err != nil {
		return err
	}
	return d.accounted(ctx, sub, by, map[string]uint64{"dead_letters": n}, func() error { return d.Discarder.DiscardAll(ctx, sub) })
}

func (d DeadLetters) accounted(ctx context.Context, sub *sluice.Subscription, by string, old any, discard func() error) error {
	intent, err := d.Ledger.Intend(ctx, nil, ledger.Change{
		Actor: by, Action: sluice.ActionDeadLetterDiscard, Namespace: sub.Namespace, Resource: sub.ID, Old: old,
	})
	if err != nil {
		return err
	}
	if err := discard(); err != nil {
		intent.Fail(ctx, err)
		return err
	}
	return nil
}
