package ingest

import (
	"context"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Publisher stores events.
type Publisher interface {
	Publish(ctx context.Context, namespace string, events []sluice.Event) ([]sluice.Stored, error)
}

// Guard remembers published events, so that it can find causes without reading the log.
type Guard interface {
	Published(namespace string, events []sluice.Event, stored []sluice.Stored)
}

// Remembered passes published events to the loop guard.
type Remembered struct {
	Publisher

	Guard Guard
}

// Publish stores events and passes them to the loop guard.
func (r Remembered) Publish(ctx context.Context, namespace string, events []sluice.Event) ([]sluice.Stored, error) {
	stored, err := r.Publisher.Publish(ctx, namespace, events)
	r.Guard.Published(namespace, events, stored)
	return stored, err
}

// Metrics counts published events.
type Metrics interface {
	Taken(namespace string, stored []sluice.Stored)
}

// Counted counts published events.
type Counted struct {
	Publisher

	Metrics Metrics
}

// Publish stores events and counts them.
func (c Counted) Publish(ctx context.Context, namespace string, events []sluice.Event) ([]sluice.Stored, error) {
	stored, err := c.Publisher.Publish(ctx, namespace, events)
	c.Metrics.Taken(namespace, stored)
	return stored, err
}
