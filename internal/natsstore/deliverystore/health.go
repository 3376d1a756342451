package deliverystore

import (
	"context"
	"time"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// healthTries is how many times a write of the health is tried if it conflicts with other writers.
const healthTries = 3

func (s *Store) healths() natsstore.Bucket[model.StoredHealth] {
	return natsstore.OpenBucket[model.StoredHealth](s.core, streams.Lanes)
}

// Health returns the stored health of a subscription; zero if there is none, because its endpoint
// has no problem.
func (s *Store) Health(ctx context.Context, sub *sluice.Subscription) (model.Health, error) {
	record, _, err := s.healths().Get(ctx, streams.HealthKey(sub.ID))
	if sluice.CodeOf(err) == sluice.NotFound {
		return model.Health{}, nil
	}
	if err != nil || !record.Since.Equal(sub.CreatedAt) {
		return model.Health{}, err
	}
	return record.Health, nil
}

// PutHealth stores the health of a subscription, and replaces any other; the zero value deletes it.
// The last writer wins: only the replica with the lease writes it. Code Conflict after healthTries
// conflicts.
func (s *Store) PutHealth(ctx context.Context, sub *sluice.Subscription, h model.Health) error {
	key := streams.HealthKey(sub.ID)
	if h == (model.Health{}) {
		return s.healths().Delete(ctx, key, 0)
	}
	var err error
	for range healthTries {
		var revision uint64
		_, revision, err = s.healths().Get(ctx, key)
		if err != nil && sluice.CodeOf(err) != sluice.NotFound {
			return err
		}
		_, err = s.healths().Put(ctx, key, model.StoredHealth{Health: h, Since: sub.CreatedAt}, revision)
		if sluice.CodeOf(err) != sluice.Conflict {
			return err
		}
	}
	return err
}

// addHealth adds the health that the replica of the subscription has stored.
func (s *Store) addHealth(ctx context.Context, sub *sluice.Subscription, status *sluice.Status) error {
	if sub.State != sluice.Active {
		return nil
	}
	h, err := s.Health(ctx, sub)
	if err != nil {
		return err
	}
	if h.Breaker != "" {
		status.Breaker = h.Breaker
	}
	status.SourceError = h.Unopened
	switch next := status.NextAttemptAt; {
	case h.Breaker == sluice.BreakerOpen && h.HeldUntil.Before(h.ProbeAt):
		status.NextAttemptAt = &h.ProbeAt
	case h.HeldUntil.After(time.Now()) && (h.Breaker == sluice.BreakerOpen || next != nil && next.Before(h.HeldUntil)):
		status.NextAttemptAt = &h.HeldUntil
	}
	return nil
}
