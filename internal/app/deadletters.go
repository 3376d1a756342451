package app

import (
	"context"

	"github.com/sluice-io/sluice/internal/httpapi"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// deadLetters gives the API the dead letters; what is not here has the same shape in the store.
type deadLetters struct{ *natsstore.Store }

// ListDeadLetters returns dead letters, newest first.
func (d deadLetters) ListDeadLetters(ctx context.Context, sub *sluice.Subscription, q httpapi.DeadLetterQuery) ([]sluice.BuriedLetter, uint64, error) {
	return d.Store.ListDeadLetters(ctx, sub, natsstore.DeadLetterQuery(q))
}

// Redrivable returns what can be redriven.
func (d deadLetters) Redrivable(ctx context.Context, sub *sluice.Subscription) (httpapi.Redrivable, error) {
	found, err := d.Store.Redrivable(ctx, sub)
	return httpapi.Redrivable(found), err
}
