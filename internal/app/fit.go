package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-io/sluice/internal/explain"
	"github.com/sluice-io/sluice/internal/httpapi"
	"github.com/sluice-io/sluice/internal/limits"
	"github.com/sluice-io/sluice/internal/metrics"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/push"
	"github.com/sluice-io/sluice/internal/registry"
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

// watcher tells the engine of subscriptions, and what counts them.
type watcher struct {
	subscriptions natsstore.Subscriptions
	counts        *limits.Counts
	know          func(id string, sub *sluice.Subscription) // nil: it is gone
}

// Watch tells of every subscription, then of every change.
func (w watcher) Watch(ctx context.Context, change func(id string, sub *sluice.Subscription)) error {
	return w.subscriptions.Watch(ctx, func(e natsstore.Entry[*sluice.Subscription]) {
		switch e.Change {
		case natsstore.Set:
			w.counts.Set(e.Value)
			w.know(e.Key, e.Value)
			if e.Value.Mode == sluice.Push {
				change(e.Key, e.Value)
			}
		case natsstore.Removed:
			w.counts.Remove(e.Key)
			w.know(e.Key, nil)
			change(e.Key, nil)
		case natsstore.CaughtUp:
			w.counts.CaughtUp()
		}
	})
}

// followNamespaces tells the quotas and the catalogue of every namespace, then of every change, until ctx is
// done; the streams are told of what is deleted.
func (s *server) followNamespaces(ctx context.Context) error {
	return s.store.WatchNamespaces(ctx, func(e natsstore.Entry[sluice.Namespace]) {
		switch e.Change {
		case natsstore.Set:
			s.quotas.Set(e.Value)
			s.catalogue.SetNamespace(e.Value)
		case natsstore.Removed:
			s.quotas.Remove(e.Key)
			s.catalogue.RemoveNamespace(e.Key, e.Revision)
			s.durable.Forget(e.Key)
		case natsstore.CaughtUp:
		}
	})
}

// replayWatcher tells the engine of replays.
type replayWatcher struct{ replays natsstore.Replays }

// Watch tells of every replay, then of every change.
func (w replayWatcher) Watch(ctx context.Context, change func(rep sluice.Replay, gone bool)) error {
	return w.replays.Watch(ctx, func(e natsstore.Entry[sluice.Replay]) {
		if e.Change != natsstore.CaughtUp {
			change(e.Value, e.Change == natsstore.Removed)
		}
	})
}

// consumers makes and removes what hands a subscription's events out.
type consumers struct {
	store  *natsstore.Store
	forget func(ctx context.Context, sub *sluice.Subscription) error // its wake consumers
}

// Ensure makes the subscription's consumers.
func (c consumers) Ensure(ctx context.Context, sub *sluice.Subscription) error {
	return c.store.EnsureConsumers(ctx, sub)
}

// Remove deletes the subscription's consumers and forgets its lanes.
func (c consumers) Remove(ctx context.Context, sub *sluice.Subscription) error {
	return errors.Join(c.store.RemoveConsumers(ctx, sub), c.store.ForgetLanes(ctx, sub.ID), c.forget(ctx, sub))
}

// eventLog gives the API a namespace's events.
type eventLog struct{ store *natsstore.Store }

// Read returns a page of events.
func (l eventLog) Read(ctx context.Context, namespace string, q httpapi.EventQuery) (httpapi.EventPage, error) {
	page, err := l.store.Events(ctx, namespace, natsstore.EventQuery{
		Pattern: q.Pattern, Types: q.Types, Since: q.Since, Until: q.Until, After: q.After, Limit: q.Limit, Visible: q.Visible,
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

// State returns a page of the state.
func (l eventLog) State(ctx context.Context, namespace string, q httpapi.StateQuery) (httpapi.StatePage, error) {
	page, err := l.store.State(ctx, namespace, natsstore.StateQuery(q))
	return httpapi.StatePage(page), err
}

// What explains deliveries reads the store as it is.
var (
	_ explain.History = (*natsstore.Store)(nil)
	_ explain.Log     = (*natsstore.Store)(nil)
)

// deliveries gives the API how a subscription is doing.
type deliveries struct {
	store  *natsstore.Store
	sender sender
}

// Status returns how the subscription is doing.
func (d deliveries) Status(ctx context.Context, sub *sluice.Subscription) (sluice.Status, error) {
	return d.store.Status(ctx, sub)
}

// LastAttemptAt returns when the subscription's last attempt was recorded.
func (d deliveries) LastAttemptAt(ctx context.Context, sub *sluice.Subscription) (time.Time, error) {
	return d.store.LastAttemptAt(ctx, sub)
}

// Test sends a sample event, which is in no log. Code Conflict if the subscription was cancelled:
// nothing goes to its endpoint any more (S0-64).
func (d deliveries) Test(ctx context.Context, sub *sluice.Subscription) (sluice.Attempt, error) {
	if sub.State == sluice.Cancelled {
		return sluice.Attempt{}, sluice.Errorf(sluice.Conflict, "subscription %q was cancelled (%s); make a new one", sub.ID, sub.Reason)
	}
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

// retrier sends one event again, or lets its lane go on without it.
type retrier struct {
	store    *natsstore.Store
	registry *registry.Registry
}

// Retry starts a replay of one event, named by its id or its sequence: in its lane if that is held by it,
// of its dead letter if it has one. Codes as registry.Replay; Conflict for an event that the subscription does not want.
func (r retrier) Retry(ctx context.Context, sub *sluice.Subscription, event, by string) (sluice.Replay, error) {
	lane, err := r.held(ctx, sub, event)
	if err != nil {
		return sluice.Replay{}, err
	}
	if lane != nil {
		return r.act(ctx, sub, sluice.ReplayRetry, lane, by)
	}
	d, err := r.store.DeadLetter(ctx, sub, event)
	switch {
	case err == nil && d.Redrivable():
		return r.registry.Start(ctx, sub, sluice.Replay{
			Kind: sluice.ReplayDeadLetters, From: d.LetterSeq, To: d.LetterSeq, EventIDs: []string{d.EventID}, Total: 1, CreatedBy: by,
		})
	case err != nil && sluice.CodeOf(err) != sluice.NotFound:
		return sluice.Replay{}, err
	}
	only := registry.ReplayRequest{From: event, To: event}
	count, err := r.registry.Count(ctx, sub.ID, only)
	if sluice.CodeOf(err) == sluice.NotFound {
		return sluice.Replay{}, sluice.Errorf(sluice.NotFound, "there is no event %q in %s", event, sub.Namespace)
	}
	if err != nil {
		return sluice.Replay{}, err
	}
	if count.Exact && count.Count == 0 {
		return sluice.Replay{}, sluice.Errorf(sluice.Conflict, "event %q cannot be sent: the pattern or the filter of %q does not choose it, or it is no event that can be read", event, sub.ID)
	}
	return r.registry.Replay(ctx, sub.ID, only, by)
}

// Discard has the head of a held lane given up, named by its id or its sequence. Codes Conflict; NotFound.
func (r retrier) Discard(ctx context.Context, sub *sluice.Subscription, event, by string) (sluice.Replay, error) {
	lane, err := r.held(ctx, sub, event)
	if err != nil {
		return sluice.Replay{}, err
	}
	if lane != nil {
		return r.act(ctx, sub, sluice.ReplayDiscard, lane, by)
	}
	if _, err := r.store.Trail(ctx, sub, event); err != nil {
		return sluice.Replay{}, err
	}
	return sluice.Replay{}, sluice.Errorf(sluice.Conflict, "event %q holds no lane of %q: only what is held can be discarded; a dead letter is discarded under dead-letters", event, sub.ID)
}

// held returns the held lane whose head is the event, nil if there is none.
func (r retrier) held(ctx context.Context, sub *sluice.Subscription, event string) (*sluice.Parked, error) {
	lanes, err := r.store.ParkedLanes(ctx, sub)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(lanes, func(p sluice.Parked) bool {
		return p.Held != "" && (p.EventID == event || strconv.FormatUint(p.FromSeq, 10) == event)
	})
	if i < 0 {
		return nil, nil //nolint:nilnil // most events hold none
	}
	return &lanes[i], nil
}

func (r retrier) act(ctx context.Context, sub *sluice.Subscription, kind sluice.ReplayKind, lane *sluice.Parked, by string) (sluice.Replay, error) {
	return r.registry.Start(ctx, sub, sluice.Replay{
		Kind: kind, From: lane.FromSeq, To: lane.FromSeq, EventIDs: []string{lane.EventID}, Total: 1, CreatedBy: by,
	})
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

// answers returns who answers for what is made under a grant.
func (s *server) answers(maker sluice.Caller, namespace string) sluice.Principal {
	return s.trust.index.Answers(maker, namespace, time.Now())
}

// payer returns who pays for a subscription's filter: who answers for it; "" for the operator.
func (s *server) payer(sub *sluice.Subscription) string {
	if sub.Grant == "" {
		return ""
	}
	return string(s.answers(sluice.Caller{Principal: sluice.Principal(sub.CreatedBy), Grant: sub.Grant}, sub.Namespace))
}
