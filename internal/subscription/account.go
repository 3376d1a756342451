package subscription

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	"github.com/google/uuid"

	"github.com/sluice-io/sluice/internal/ledger"
	"github.com/sluice-io/sluice/internal/outbox"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Announcer publishes the system events about subscriptions.
type Announcer interface {
	// Subscription publishes the system events that are stored with a subscription (Untold). It
	// returns within a short time, and publishes later what it could not publish by then.
	Subscription(ctx context.Context, sub *sluice.Subscription)
}

// act is an actor's change to a subscription.
type act struct {
	by     string // a principal, or the server itself
	action string // action in the ledger
	event  string // type of the system event if the state does not change
	to     string // position of a seek
}

// sought is a subscription that was moved. Its target position is only in the ledger.
type sought struct {
	*sluice.Subscription

	SoughtTo string `json:"sought_to"`
}

// system returns an act of the server itself.
func system(action string) act { return act{by: sluice.ActorSystem, action: action} }

// intend writes the planned change to the ledger. before is nil for a new subscription, after is
// nil for a deleted one. Changes by the server itself succeed even without the ledger, because an
// endpoint that is gone must be released.
func (r *Registry) intend(ctx context.Context, a act, tried *ledger.Intent, before, after *sluice.Subscription) (*ledger.Intent, error) {
	of := after
	c := ledger.Change{Actor: a.by, Action: a.action}
	if after != nil {
		c.New = after
	}
	if after != nil && a.to != "" {
		c.New = sought{after, a.to}
	}
	if before != nil {
		c.Old, of = before, before
	}
	c.Namespace, c.Resource = of.Namespace, of.ID
	if a.by == sluice.ActorSystem {
		return r.needs.Ledger.Note(ctx, tried, c), nil
	}
	return r.needs.Ledger.Intend(ctx, tried, c)
}

// enact stores a subscription as changed by an act, and then publishes the act's system event.
// before is nil for a new subscription. The order is fixed: first the ledger entry (intend), then
// the change, then the event (S2-05), so that a reader of the event finds the change (S2-06). The
// event is stored with the change (C32). Code Conflict after a concurrent change.
func (r *Registry) enact(ctx context.Context, a act, before, after *sluice.Subscription) error {
	var revision uint64
	if before == nil {
		after.Untold = nil // may be set by an earlier attempt
	} else {
		revision = before.Revision
	}
	if err := r.announced(a, a.announces(before, after), before, after); err != nil {
		return err
	}
	_, err := outbox.WriteThenPublish(ctx, func(ctx context.Context) (*sluice.Subscription, error) {
		revision, err := r.needs.Subscriptions.Put(ctx, after.ID, after, revision)
		if err != nil {
			return nil, fmt.Errorf("store subscription: %w", err)
		}
		after.Revision = revision
		return after, nil
	}, r.needs.Announce.Subscription)
	return err
}

// retire removes a subscription, and then publishes that as enact does.
func (r *Registry) retire(ctx context.Context, a act, sub *sluice.Subscription) error {
	if err := r.announced(a, sluice.TypeSubscriptionDeleted, sub, sub); err != nil {
		return err
	}
	_, err := outbox.WriteThenPublish(ctx, func(ctx context.Context) (*sluice.Subscription, error) {
		if err := r.needs.Subscriptions.Retire(ctx, sub); err != nil {
			return nil, fmt.Errorf("delete subscription: %w", err)
		}
		return sub, nil
	}, r.needs.Announce.Subscription)
	return err
}

// announced adds the system event of an act to the subscription. It does nothing if the kind is "".
func (r *Registry) announced(a act, kind string, before, after *sluice.Subscription) error {
	if kind == "" {
		return nil
	}
	id, err := uuid.NewV7()
	if err != nil {
		return fmt.Errorf("generate an ID: %w", err)
	}
	n := sluice.Announcement{ID: id.String(), Type: kind, State: after.State, Reason: after.Reason, At: r.needs.Now().UTC()}
	if after.State == sluice.Cancelled && before != nil && (before.State != sluice.Cancelled || kind == sluice.TypeSubscriptionDeleted) {
		n.CancelledBy = a.by
	}
	if before != nil && (kind == sluice.TypeSubscriptionUpdated || a.action == sluice.ActionSubscriptionUpdate) { // S2-21
		if n.Old, n.New, err = ledger.Fields(before, after); err != nil {
			return err
		}
	}
	after.Untold = append(slices.Clip(after.Untold), n)
	return nil
}

// announces returns the type of the system event of an act. If the act changes the state, the new
// state determines the type, otherwise the act does. It returns "" for an intermediate step, which
// is not published.
func (a act) announces(before, after *sluice.Subscription) string {
	if before == nil || before.State == after.State || a.action == sluice.ActionSubscriptionDelete {
		return a.event
	}
	switch after.State {
	case sluice.Active:
		return sluice.TypeSubscriptionResumed
	case sluice.Paused:
		return sluice.TypeSubscriptionPaused
	case sluice.Disabled:
		return sluice.TypeSubscriptionDisabled
	case sluice.Suspended:
		return sluice.TypeSubscriptionSuspended
	case sluice.Cancelled:
		if after.Reason == sluice.ReasonAccessRevoked {
			return sluice.TypeAccessRevoked
		}
		return sluice.TypeSubscriptionCancelled
	}
	return a.event
}

// change applies an act to the stored subscription, again after each concurrent change, and returns
// the stored result. If apply reports no change, it writes nothing. If apply reports one and leaves
// the subscription as it is, there is no event. Code Unavailable if the ledger is not writable.
func (r *Registry) change(ctx context.Context, id string, a act, apply func(*sluice.Subscription) (bool, error)) (*sluice.Subscription, error) {
	var intent *ledger.Intent
	for {
		sub, err := r.load(ctx, id)
		if err != nil {
			intent.Fail(ctx, err)
			return nil, err
		}
		before := *sub
		changed, err := apply(sub)
		if err != nil {
			intent.Fail(ctx, err)
			return sub, err
		}
		if !changed {
			intent.Fail(ctx, sluice.Errorf(sluice.Conflict, "concurrent change with the same result"))
			return sub, nil
		}
		try := a
		if reflect.DeepEqual(&before, sub) {
			try.event = ""
		}
		sub.UpdatedAt = r.needs.Now().UTC()
		if intent, err = r.intend(ctx, a, intent, &before, sub); err != nil {
			return nil, err
		}
		err = r.enact(ctx, try, &before, sub)
		if sluice.CodeOf(err) == sluice.Conflict {
			continue
		}
		if err != nil {
			intent.Fail(ctx, err)
			return nil, err
		}
		return sub, nil
	}
}

// store stores a new subscription. Codes Conflict if its ID exists; QuotaExceeded; Unavailable if
// the ledger is not writable.
func (r *Registry) store(ctx context.Context, sub *sluice.Subscription) error {
	return r.counted(ctx, sub, func() error { return r.make(ctx, sub) })
}

// make is store for a subscription that was already counted.
func (r *Registry) make(ctx context.Context, sub *sluice.Subscription) error {
	a := act{by: sub.CreatedBy, action: sluice.ActionSubscriptionCreate, event: sluice.TypeSubscriptionCreated}
	intent, err := r.intend(ctx, a, nil, nil, sub)
	if err != nil {
		return err
	}
	r.needs.Consumers.Expect(sub)
	if err := r.enact(ctx, a, nil, sub); err != nil {
		intent.Fail(ctx, err)
		return err
	}
	return nil
}
