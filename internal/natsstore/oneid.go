package natsstore

import (
	"context"
	"errors"

	"github.com/sluice-io/sluice/internal/shutdown"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// requireUnused returns an error (SubscriptionDiffers) if the bucket of the other kind of subscriptions has
// an ID. Subscriptions and mirrors share the IDs of the API, but no bucket.
func (s *Store) requireUnused(ctx context.Context, other, id string) error {
	record, _, err := OpenBucket[struct {
		Gone bool `json:"gone"`
	}](s, other).Get(ctx, id)
	switch {
	case sluice.CodeOf(err) == sluice.NotFound || err == nil && record.Gone:
		return nil
	case err != nil:
		return err
	}
	return sluice.Errorf(sluice.SubscriptionDiffers, "the id is in use; choose another one")
}

// PutExclusive stores a new record of a subscription or mirror with put, unless the bucket of the other
// kind has the ID. It looks there before and after, because no transaction covers two buckets, and
// deletes the record if the other one was stored meanwhile. Code SubscriptionDiffers; those of put.
func (b Bucket[T]) PutExclusive(ctx context.Context, other, id string, put func() (uint64, error)) (uint64, error) {
	if err := b.store.requireUnused(ctx, other, id); err != nil {
		return 0, err
	}
	revision, err := put()
	if err != nil {
		return 0, err
	}
	if err := b.store.requireUnused(ctx, other, id); err != nil {
		return 0, errors.Join(err, b.Delete(shutdown.Lasting(ctx), id, revision))
	}
	return revision, nil
}
