package registry

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/sluice-io/sluice/internal/ledger"
	"github.com/sluice-io/sluice/internal/telling"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Announcer publishes the system events about subscriptions.
type Announcer interface {
	// Subscription publishes what a subscription has to be told (Untold), which is stored as it is given. It
	// takes a short time at most, and what it cannot publish it publishes later.
	Subscription(ctx context.Context, sub *sluice.Subscription)
}

// act is something that somebody does to a subscription.
type act struct {
	by     string // a principal, or the server itself
	action string // in the ledger
	event  string // that announces it, if the state stays as it is
	to     string // where a seek goes
}

// sought is a subscription that was moved. Where to is in the ledger only.
type sought struct {
	*sluice.Subscription

	SoughtTo string `json:"sought_to"`
}

// system returns an act of the server itself.
func system(action string) act { return act{by: sluice.ActorSystem, action: action} }

// intend writes to the ledger what is about to change; before is nil for a subscription that is
// new, after for one that goes. What the server does by itself it does without a ledger, too:
// an endpoint that is gone has to be let go of.
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

// enact stores a subscription as an act leaves it and then announces it; before is nil for a
// new one. In this order and nowhere else: the ledger knows of it first (intend), then it is
// so, and then it is told (S2-05), so that who reacts by asking finds what was announced
// (S2-06). What is told is stored with what it tells of (C32). Code Conflict if somebody else was faster.
func (r *Registry) enact(ctx context.Context, a act, before, after *sluice.Subscription) error {
	var revision uint64
	if before == nil {
		after.Untold = nil // of a try before
	} else {
		revision = before.Revision
	}
	if err := r.announced(a, a.announces(before, after), before, after); err != nil {
		return err
	}
	_, err := telling.After(ctx, func(ctx context.Context) (*sluice.Subscription, error) {
		revision, err := r.needs.Subscriptions.Put(ctx, after.ID, after, revision)
		if err != nil {
			return nil, fmt.Errorf("store subscription: %w", err)
		}
		after.Revision = revision
		return after, nil
	}, r.needs.Announce.Subscription)
	return err
}

// retire takes a subscription away and then announces that, as enact does.
func (r *Registry) retire(ctx context.Context, a act, sub *sluice.Subscription) error {
	if err := r.announced(a, sluice.TypeSubscriptionDeleted, sub, sub); err != nil {
		return err
	}
	_, err := telling.After(ctx, func(ctx context.Context) (*sluice.Subscription, error) {
		if err := r.needs.Subscriptions.Retire(ctx, sub); err != nil {
			return nil, fmt.Errorf("delete subscription: %w", err)
		}
		return sub, nil
	}, r.needs.Announce.Subscription)
	return err
}

// announced adds what an act has to be told to the subscription that it leaves; nothing if the kind is "".
func (r *Registry) announced(a act, kind string, before, after *sluice.Subscription) error {
	if kind == "" {
		return nil
	}
	id, err := uuid.NewV7()
	if err != nil {
		return fmt.Errorf("make an id: %w", err)
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

// announces returns the type of the event that announces an act: what became of the state, or
// else of the rest; "" for a step on the way, which nobody is told of.
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

// change applies an act to the stored subscription, anew if somebody else was faster, and
// returns what is stored then. Nothing is written if apply says that there is nothing to
// change. Code Unavailable if the ledger cannot be written.
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
			intent.Fail(ctx, sluice.Errorf(sluice.Conflict, "somebody else made it so"))
			return sub, nil
		}
		sub.UpdatedAt = r.needs.Now().UTC()
		if intent, err = r.intend(ctx, a, intent, &before, sub); err != nil {
			return nil, err
		}
		err = r.enact(ctx, a, &before, sub)
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

// store stores a new subscription. Codes Conflict if there is one of its id; QuotaExceeded;
// Unavailable if the ledger cannot be written.
func (r *Registry) store(ctx context.Context, sub *sluice.Subscription) error {
	return r.counted(ctx, sub, func() error { return r.make(ctx, sub) })
}

// make is store for a subscription that was counted.
func (r *Registry) make(ctx context.Context, sub *sluice.Subscription) error {
	a := act{by: sub.CreatedBy, action: sluice.ActionSubscriptionCreate, event: sluice.TypeSubscriptionCreated}
	intent, err := r.intend(ctx, a, nil, nil, sub)
	if err != nil {
		return err
	}
	if err := r.enact(ctx, a, nil, sub); err != nil {
		intent.Fail(ctx, err)
		return err
	}
	return nil
}
