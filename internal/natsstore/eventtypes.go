package natsstore

import (
	"context"
	"errors"

	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// EventTypes returns the bucket with the event types of the catalogues.
func (s *Store) EventTypes() Bucket[sluice.EventType] {
	return OpenBucket[sluice.EventType](s, streams.EventTypes)
}

// DeleteEventTypes deletes the whole catalogue of a namespace.
func (n Namespaces) DeleteEventTypes(ctx context.Context, namespace string) error {
	entries, err := n.store.EventTypes().List(ctx, streams.EventTypeKeys(namespace))
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		errs = append(errs, n.store.EventTypes().Delete(ctx, e.Key, 0))
	}
	return errors.Join(errs...)
}
