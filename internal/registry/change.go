package registry

import (
	"context"
	"fmt"
	"time"

	"github.com/sluice-io/sluice/internal/ledger"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// DefaultOverlap is how long an old secret goes on signing beside the new one.
const DefaultOverlap = 24 * time.Hour

// maxSecrets bounds the secrets of a subscription, and so the signatures of a request.
const maxSecrets = 5

// Reasons that the registry itself gives for the end of a subscription.
const (
	ReasonGone    = string(sluice.EndpointGone) // its endpoint answered 410 (S0-49)
	ReasonDeleted = "deleted"                   // seen only while it is being deleted
)

// Get returns a subscription, without secret. Code SubscriptionMissing if there is none (S0-86).
func (r *Registry) Get(ctx context.Context, id string) (*sluice.Subscription, error) {
	return r.load(ctx, id)
}

// Pause stops the deliveries of an active subscription; nothing is lost meanwhile. As with
// every change, by is who wants it. Codes SubscriptionMissing; Conflict if it is cancelled;
// Unavailable, as with every change, if the ledger cannot be written.
func (r *Registry) Pause(ctx context.Context, id, by string) (*sluice.Subscription, error) {
	return r.change(ctx, id, act{by: by, action: sluice.ActionSubscriptionPause}, pause)
}

// Resume makes a paused or disabled subscription active again. Codes as Pause.
func (r *Registry) Resume(ctx context.Context, id, by string) (*sluice.Subscription, error) {
	return r.change(ctx, id, act{by: by, action: sluice.ActionSubscriptionResume}, resume)
}

// Disable ends the deliveries of an active subscription until it is resumed. It does nothing
// to one that is not active or not there. Nobody asks for it: it is done with a ledger that
// cannot be written, too.
func (r *Registry) Disable(ctx context.Context, id, reason string) error {
	return r.stop(ctx, id, system(sluice.ActionSubscriptionDisable), sluice.Disabled, reason)
}

// Suspend is Disable for a subscription that asks too much of the server.
func (r *Registry) Suspend(ctx context.Context, id, reason string) error {
	return r.stop(ctx, id, system(sluice.ActionSubscriptionSuspend), sluice.Suspended, reason)
}

// stop ends the deliveries of an active subscription until it is resumed.
func (r *Registry) stop(ctx context.Context, id string, a act, state sluice.State, reason string) error {
	_, err := r.change(ctx, id, a, func(sub *sluice.Subscription) (bool, error) {
		if sub.State != sluice.Active {
			return false, nil
		}
		sub.State, sub.Enabled, sub.Reason = state, false, reason
		return true, nil
	})
	return unlessMissing(err)
}

// Cancel ends a subscription for good (S0-49): its record stays (S0-77), its consumer goes. It
// may be repeated, and does nothing to a subscription that is not there. As Disable, it does
// not depend on the ledger.
func (r *Registry) Cancel(ctx context.Context, id, reason string) error {
	sub, err := r.change(ctx, id, system(sluice.ActionSubscriptionCancel), func(sub *sluice.Subscription) (bool, error) {
		if sub.State == sluice.Cancelled {
			return false, nil
		}
		r.cancel(sub, reason)
		return true, nil
	})
	if err != nil {
		return unlessMissing(err)
	}
	return r.removeConsumers(ctx, sub)
}

func (r *Registry) cancel(sub *sluice.Subscription, reason string) {
	now := r.needs.Now().UTC()
	sub.State, sub.Enabled, sub.Reason, sub.CancelledAt = sluice.Cancelled, false, reason, &now
}

func (r *Registry) removeConsumers(ctx context.Context, sub *sluice.Subscription) error {
	if err := r.needs.Consumers.Remove(ctx, sub); err != nil {
		return fmt.Errorf("remove consumer of %s: %w", sub.ID, err)
	}
	return nil
}

// Delete removes a subscription, its consumer and its reservations. If it fails half-way the
// subscription is there still, cancelled, and can be deleted again. Code SubscriptionMissing.
func (r *Registry) Delete(ctx context.Context, id, by string) error {
	a := act{by: by, action: sluice.ActionSubscriptionDelete}
	var intent *ledger.Intent
	for {
		sub, err := r.load(ctx, id)
		if err != nil {
			intent.Fail(ctx, err)
			return err
		}
		if intent, err = r.intend(ctx, a, intent, sub, nil); err != nil {
			return err
		}
		err = r.remove(ctx, a, sub)
		if err == nil {
			return nil
		}
		if sluice.CodeOf(err) != sluice.Conflict {
			intent.Fail(ctx, err)
			return err
		}
	}
}

// remove makes sure that nothing is delivered any more and then takes the record away, last of
// all, and tells of it. Code Conflict if somebody else changed the record meanwhile.
func (r *Registry) remove(ctx context.Context, a act, sub *sluice.Subscription) error {
	if before := *sub; sub.State != sluice.Cancelled {
		r.cancel(sub, ReasonDeleted)
		if err := r.enact(ctx, a, &before, sub); err != nil {
			return err
		}
	}
	if err := r.removeConsumers(ctx, sub); err != nil {
		return err
	}
	if err := r.release(ctx, sub); err != nil {
		return err
	}
	if err := r.needs.Replays.Remove(ctx, sub.ID); err != nil {
		return fmt.Errorf("remove replays: %w", err)
	}
	return r.retire(ctx, a, sub)
}

// DeleteAll deletes the subscriptions of a namespace that are there now.
func (r *Registry) DeleteAll(ctx context.Context, namespace, by string) error {
	page, err := r.List(ctx, Query{Namespace: namespace})
	if err != nil {
		return err
	}
	for _, sub := range page.Subscriptions {
		if err := unlessMissing(r.Delete(ctx, sub.ID, by)); err != nil {
			return err
		}
	}
	return nil
}

// Rotate gives a subscription a new secret and returns it with that. The old one goes on
// signing for the overlap where the scheme allows several signatures (C08).
// Codes SubscriptionMissing; InvalidRequest for a negative overlap; Conflict if it is cancelled.
func (r *Registry) Rotate(ctx context.Context, id string, overlap time.Duration, by string) (*sluice.Subscription, error) {
	if overlap < 0 {
		return nil, sluice.Errorf(sluice.InvalidRequest, "overlap %s is negative", overlap)
	}
	a := act{by: by, action: sluice.ActionSubscriptionRotate, event: sluice.TypeSecretRotated}
	sub, err := r.change(ctx, id, a, func(sub *sluice.Subscription) (bool, error) {
		if err := alive(sub); err != nil {
			return false, err
		}
		value, err := sluice.NewSecret()
		if err != nil {
			return false, err
		}
		sub.Secrets = rotated(sub.Secrets, value, r.needs.Now().UTC(), overlap)
		sub.SecretHint = sluice.SecretHint(value)
		return true, nil
	})
	if err != nil {
		return nil, err
	}
	return withSecret(sub), nil
}

// rotated returns the secrets with the new one in front: the one before expires after the
// overlap, earlier ones as they would have; expired ones go.
func rotated(secrets []sluice.Secret, value string, now time.Time, overlap time.Duration) []sluice.Secret {
	kept := []sluice.Secret{{Value: value, CreatedAt: now}}
	for _, s := range secrets {
		if s.ExpiresAt.IsZero() {
			s.ExpiresAt = now.Add(overlap)
		}
		if now.Before(s.ExpiresAt) && len(kept) < maxSecrets {
			kept = append(kept, s)
		}
	}
	return kept
}

func pause(sub *sluice.Subscription) (bool, error) {
	if sub.State != sluice.Active {
		return false, alive(sub)
	}
	sub.State, sub.Enabled = sluice.Paused, false
	return true, nil
}

func resume(sub *sluice.Subscription) (bool, error) {
	if err := alive(sub); err != nil || sub.State == sluice.Active {
		return false, err
	}
	sub.State, sub.Enabled, sub.Reason = sluice.Active, true, ""
	return true, nil
}

// alive returns an error (Conflict) if the subscription was cancelled, which is final.
func alive(sub *sluice.Subscription) error {
	if sub.State == sluice.Cancelled {
		return sluice.Errorf(sluice.Conflict, "subscription %q was cancelled (%s); make a new one", sub.ID, sub.Reason)
	}
	return nil
}

func unlessMissing(err error) error {
	if sluice.CodeOf(err) == sluice.SubscriptionMissing {
		return nil
	}
	return err
}
