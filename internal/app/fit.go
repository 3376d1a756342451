package app

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-io/sluice/internal/httpapi"
	"github.com/sluice-io/sluice/internal/metrics"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/push"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// What one part needs and another has, where the shapes differ.

// sources opens sources for the engine.
type sources struct{ store *natsstore.Store }

// Open opens the subscription's source.
func (s sources) Open(ctx context.Context, sub *sluice.Subscription) (push.Source, error) {
	src, err := s.store.OpenSource(ctx, sub)
	if err != nil {
		return nil, err
	}
	return src, nil
}

// Look looks for events that left the log before the subscription got them.
func (s sources) Look(ctx context.Context, sub *sluice.Subscription, wanted func(*sluice.Event) bool, lost func(from, to uint64) error) error {
	return s.store.Look(ctx, sub, wanted, lost)
}

// watcher tells the engine of subscriptions.
type watcher struct{ subscriptions natsstore.Subscriptions }

// Watch tells of every subscription, then of every change.
func (w watcher) Watch(ctx context.Context, change func(id string, sub *sluice.Subscription)) error {
	return w.subscriptions.Watch(ctx, func(e natsstore.Entry[*sluice.Subscription]) {
		switch e.Change {
		case natsstore.Set:
			change(e.Key, e.Value)
		case natsstore.Removed:
			change(e.Key, nil)
		case natsstore.CaughtUp:
		}
	})
}

// consumers makes and removes what hands a subscription's events out.
type consumers struct{ store *natsstore.Store }

// Ensure makes the subscription's consumers.
func (c consumers) Ensure(ctx context.Context, sub *sluice.Subscription) error {
	return c.store.EnsureConsumers(ctx, sub)
}

// Remove deletes the subscription's consumers and forgets its lanes.
func (c consumers) Remove(ctx context.Context, sub *sluice.Subscription) error {
	return errors.Join(c.store.RemoveConsumers(ctx, sub), c.store.ForgetLanes(ctx, sub.ID))
}

// keyRing is the key that the server signs with.
type keyRing struct {
	id  string
	key ed25519.PrivateKey
}

// SigningKey returns the key to sign with.
func (k keyRing) SigningKey() (kid string, key ed25519.PrivateKey) { return k.id, k.key }

// eventLog gives the API a namespace's events.
type eventLog struct{ store *natsstore.Store }

// Read returns a page of events.
func (l eventLog) Read(ctx context.Context, namespace string, q httpapi.EventQuery) (httpapi.EventPage, error) {
	page, err := l.store.Events(ctx, namespace, natsstore.EventQuery{
		Pattern: q.Pattern, Types: q.Types, Since: q.Since, Until: q.Until, After: q.After, Limit: q.Limit,
	})
	return httpapi.EventPage{Events: page.Events, Next: page.NextCursor}, err
}

// EventAt returns the event with the sequence.
func (l eventLog) EventAt(ctx context.Context, namespace string, seq uint64) (sluice.Event, error) {
	return l.store.Event(ctx, namespace, seq)
}

// EventByID returns the event with the id.
func (l eventLog) EventByID(ctx context.Context, namespace, id string) (sluice.Event, error) {
	return l.store.EventByID(ctx, namespace, id)
}

// deliveries gives the API what became of a subscription's events.
type deliveries struct {
	store  *natsstore.Store
	sender sender
}

// Attempts returns attempts, newest first.
func (d deliveries) Attempts(ctx context.Context, sub *sluice.Subscription, q httpapi.AttemptQuery) ([]sluice.Attempt, uint64, error) {
	return d.store.Attempts(ctx, sub, natsstore.AttemptQuery{EventID: q.EventID, Since: q.Since, Before: q.Before, Limit: q.Limit})
}

// Status returns how the subscription is doing.
func (d deliveries) Status(ctx context.Context, sub *sluice.Subscription) (sluice.Status, error) {
	return d.store.Status(ctx, sub)
}

// LastAttemptAt returns when the subscription's last attempt was recorded.
func (d deliveries) LastAttemptAt(ctx context.Context, sub *sluice.Subscription) (time.Time, error) {
	return d.store.LastAttemptAt(ctx, sub)
}

// Test sends a sample event, which is in no log.
func (d deliveries) Test(ctx context.Context, sub *sluice.Subscription) (sluice.Attempt, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return sluice.Attempt{}, fmt.Errorf("make an id: %w", err)
	}
	now := time.Now().UTC()
	a := d.sender.Send(ctx, sub, &sluice.Event{
		Namespace: sub.Namespace, Path: "/_sys/test", ID: id.String(), Type: "sys.test", Source: "/subscriptions/" + sub.ID,
		Time: now, Stored: now, ContentType: "application/json", Data: []byte(`{"message":"a test of subscription ` + sub.ID + `"}`),
	}, 1)
	return a, nil
}

// counted counts what is published.
type counted struct {
	publisher

	metrics *metrics.Metrics
}

// Publish stores events and counts them.
func (c counted) Publish(ctx context.Context, namespace string, events []sluice.Event) ([]sluice.Stored, error) {
	stored, err := c.publisher.Publish(ctx, namespace, events)
	c.metrics.Taken(namespace, stored)
	return stored, err
}
