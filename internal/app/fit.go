package app

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-io/sluice/internal/endpoint/limit"
	"github.com/sluice-io/sluice/internal/explain"
	"github.com/sluice-io/sluice/internal/httpapi"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/natsstore/deliverystore"
	"github.com/sluice-io/sluice/internal/subscription"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Adapters between components whose types differ.

// eventLog implements the API's read operations on events.
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

// Data sources of delivery explanations, straight from the store.
var (
	_ explain.History = (*deliverystore.Store)(nil)
	_ explain.Log     = (*natsstore.Store)(nil)
)

// deliveries implements the API's operations on a subscription's deliveries.
type deliveries struct {
	store  *deliverystore.Store
	sender sender
	pace   limit.Endpoints
}

// Status returns the status of the subscription.
func (d deliveries) Status(ctx context.Context, sub *sluice.Subscription) (sluice.Status, error) {
	return d.store.Status(ctx, sub)
}

// LastAttemptAt returns when the subscription's last attempt was recorded.
func (d deliveries) LastAttemptAt(ctx context.Context, sub *sluice.Subscription) (time.Time, error) {
	return d.store.LastAttemptAt(ctx, sub)
}

// Test sends a test event, which is not in a log. Codes: Conflict if the subscription was
// cancelled, because nothing more is sent to its endpoint (S0-64); QuotaExceeded if the rate that
// the endpoint agreed to is used up.
func (d deliveries) Test(ctx context.Context, sub *sluice.Subscription) (sluice.Attempt, error) {
	if sub.State == sluice.Cancelled {
		return sluice.Attempt{}, sluice.Errorf(sluice.Conflict, "subscription %q was cancelled (%s); create a new one", sub.ID, sub.Reason)
	}
	id, err := uuid.NewV7()
	if err != nil {
		return sluice.Attempt{}, fmt.Errorf("generate an ID: %w", err)
	}
	now := time.Now().UTC()
	if err := d.pace.TakeNow(sub, now); err != nil {
		return sluice.Attempt{}, err
	}
	a := d.sender.Send(ctx, sub, &sluice.Event{
		Namespace: sub.Namespace, Path: "/_sys/test", ID: id.String(), Type: "sys.test", Source: "/subscriptions/" + sub.ID,
		Time: now, Stored: now, ContentType: "application/json", Data: []byte(`{"message":"a test of subscription ` + sub.ID + `"}`),
	}, 1)
	return a, nil
}

// retrier retries an event, or releases its lane without it.
type retrier struct {
	store    *deliverystore.Store
	registry *subscription.Registry
}

// Retry starts a replay of one event, given by its ID or sequence: in its lane if the event holds
// it, or of its dead letter if it has one. Codes as for registry.Replay; Conflict for an event that
// does not match the subscription.
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
	only := subscription.ReplayRequest{From: event, To: event}
	count, err := r.registry.Count(ctx, sub.ID, only)
	if sluice.CodeOf(err) == sluice.NotFound {
		return sluice.Replay{}, sluice.Errorf(sluice.NotFound, "event %q not found in %s", event, sub.Namespace)
	}
	if err != nil {
		return sluice.Replay{}, err
	}
	if count.Exact && count.Count == 0 {
		return sluice.Replay{}, sluice.Errorf(sluice.Conflict, "event %q cannot be sent: it does not match the pattern or the filter of %q, or cannot be read", event, sub.ID)
	}
	return r.registry.Replay(ctx, sub.ID, only, by)
}

// Discard discards the head of a held lane, given by its ID or sequence. Codes Conflict; NotFound.
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
	return sluice.Replay{}, sluice.Errorf(sluice.Conflict, "event %q holds no lane of %q: only held events can be discarded; discard dead letters under dead-letters", event, sub.ID)
}

// held returns the lane that the event holds, nil if none.
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

// audit gives the API the ledger.
type audit struct{ ledger natsstore.Ledger }

// Entries returns entries, newest first.
func (a audit) Entries(ctx context.Context, q httpapi.AuditQuery) ([]sluice.LedgerEntry, uint64, error) {
	return a.ledger.Entries(ctx, natsstore.LedgerQuery(q))
}
