package registry

import (
	"context"
	"fmt"
	"time"

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

// Pause stops the deliveries of an active subscription; nothing is lost meanwhile. Codes
// SubscriptionMissing; Conflict if it is cancelled.
func (r *Registry) Pause(ctx context.Context, id string) (*sluice.Subscription, error) {
	return r.change(ctx, id, pause)
}

// Resume makes a paused or disabled subscription active again. Codes as Pause.
func (r *Registry) Resume(ctx context.Context, id string) (*sluice.Subscription, error) {
	return r.change(ctx, id, resume)
}

// Disable ends the deliveries of an active subscription until it is resumed. It does nothing
// to one that is not active or not there.
func (r *Registry) Disable(ctx context.Context, id, reason string) error {
	_, err := r.change(ctx, id, func(sub *sluice.Subscription) (bool, error) {
		if sub.State != sluice.Active {
			return false, nil
		}
		sub.State, sub.Enabled, sub.Reason = sluice.Disabled, false, reason
		return true, nil
	})
	return unlessMissing(err)
}

// Cancel ends a subscription for good (S0-49): its record stays (S0-77), its consumer goes. It
// may be repeated, and does nothing to a subscription that is not there.
func (r *Registry) Cancel(ctx context.Context, id, reason string) error {
	_, err := r.cancel(ctx, id, reason)
	return unlessMissing(err)
}

func (r *Registry) cancel(ctx context.Context, id, reason string) (*sluice.Subscription, error) {
	sub, err := r.change(ctx, id, func(sub *sluice.Subscription) (bool, error) {
		if sub.State == sluice.Cancelled {
			return false, nil
		}
		now := r.needs.Now().UTC()
		sub.State, sub.Enabled, sub.Reason, sub.CancelledAt = sluice.Cancelled, false, reason, &now
		return true, nil
	})
	if err != nil {
		return nil, err
	}
	if err := r.needs.Consumers.Remove(ctx, sub); err != nil {
		return nil, fmt.Errorf("remove consumer of %s: %w", id, err)
	}
	return sub, nil
}

// Delete removes a subscription, its consumer and its reservations. If it fails half-way the
// subscription is there still, cancelled, and can be deleted again. Code SubscriptionMissing.
func (r *Registry) Delete(ctx context.Context, id string) error {
	for {
		sub, err := r.cancel(ctx, id, ReasonDeleted)
		if err != nil {
			return err
		}
		if err := r.release(ctx, sub); err != nil {
			return err
		}
		if err := r.needs.Replays.Remove(ctx, id); err != nil {
			return err
		}
		err = r.needs.Subscriptions.Delete(ctx, id, sub.Revision)
		if sluice.CodeOf(err) != sluice.Conflict {
			return err
		}
	}
}

// DeleteAll deletes the subscriptions of a namespace that are there now.
func (r *Registry) DeleteAll(ctx context.Context, namespace string) error {
	page, err := r.List(ctx, Query{Namespace: namespace})
	if err != nil {
		return err
	}
	for _, sub := range page.Subscriptions {
		if err := unlessMissing(r.Delete(ctx, sub.ID)); err != nil {
			return err
		}
	}
	return nil
}

// Rotate gives a subscription a new secret and returns it with that. The old one goes on
// signing for the overlap where the scheme allows several signatures (C08).
// Codes SubscriptionMissing; InvalidRequest for a negative overlap; Conflict if it is cancelled.
func (r *Registry) Rotate(ctx context.Context, id string, overlap time.Duration) (*sluice.Subscription, error) {
	if overlap < 0 {
		return nil, sluice.Errorf(sluice.InvalidRequest, "overlap %s is negative", overlap)
	}
	sub, err := r.change(ctx, id, func(sub *sluice.Subscription) (bool, error) {
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

// change applies a change to the stored subscription, anew if somebody else was faster, and
// returns what is stored then. Nothing is written if the change says that there is nothing to.
func (r *Registry) change(ctx context.Context, id string, apply func(*sluice.Subscription) (bool, error)) (*sluice.Subscription, error) {
	for {
		sub, err := r.load(ctx, id)
		if err != nil {
			return nil, err
		}
		changed, err := apply(sub)
		if err != nil || !changed {
			return sub, err
		}
		sub.UpdatedAt = r.needs.Now().UTC()
		revision, err := r.needs.Subscriptions.Put(ctx, id, sub, sub.Revision)
		if sluice.CodeOf(err) == sluice.Conflict {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("store subscription: %w", err)
		}
		sub.Revision = revision
		return sub, nil
	}
}

func pause(sub *sluice.Subscription) (bool, error) {
	if err := alive(sub); err != nil || sub.State != sluice.Active {
		return false, err
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
