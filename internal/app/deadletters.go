package app

import (
	"context"

	"github.com/sluice-io/sluice/internal/httpapi"
	"github.com/sluice-io/sluice/internal/ledger"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/natsstore/deliverystore"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// deadLetters implements the API's operations on dead letters that differ from those of the store.
type deadLetters struct {
	*deliverystore.Store

	ledger *ledger.Ledger
}

// ListDeadLetters returns dead letters, newest first.
func (d deadLetters) ListDeadLetters(ctx context.Context, sub *sluice.Subscription, q httpapi.DeadLetterQuery) ([]model.BuriedLetter, uint64, error) {
	return d.Store.ListDeadLetters(ctx, sub, deliverystore.DeadLetterQuery(q))
}

// Discard deletes the dead letter of an event after recording that in the ledger.
func (d deadLetters) Discard(ctx context.Context, sub *sluice.Subscription, event, by string) error {
	letter, err := d.DeadLetter(ctx, sub, event)
	if err != nil {
		return err
	}
	letter.Event = nil
	return d.accounted(ctx, sub, by, letter.DeadLetter, func() error { return d.Store.Discard(ctx, sub, event) })
}

// DiscardAll deletes all dead letters of a subscription.
func (d deadLetters) DiscardAll(ctx context.Context, sub *sluice.Subscription, by string) error {
	n, err := d.CountDeadLetters(ctx, sub)
	if err != nil {
		return err
	}
	return d.accounted(ctx, sub, by, map[string]uint64{"dead_letters": n}, func() error { return d.Store.DiscardAll(ctx, sub) })
}

func (d deadLetters) accounted(ctx context.Context, sub *sluice.Subscription, by string, old any, discard func() error) error {
	intent, err := d.ledger.Intend(ctx, nil, ledger.Change{
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

// Redrivable returns the dead letters that can be redriven.
func (d deadLetters) Redrivable(ctx context.Context, sub *sluice.Subscription) (httpapi.Redrivable, error) {
	found, err := d.Store.Redrivable(ctx, sub)
	return httpapi.Redrivable(found), err
}
