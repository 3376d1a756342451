package subscription

import (
	"context"
	"fmt"
	"time"

	"github.com/sluice-io/sluice/internal/ledger"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// DefaultOverlap is how long an old secret still signs after a rotation.
const DefaultOverlap = 24 * time.Hour

// maxSecrets limits the secrets of a subscription, and so the signatures of a request.
const maxSecrets = 5

// Reasons for the end of a subscription that the registry sets.
const (
	ReasonGone    = string(sluice.EndpointGone) // the endpoint returned 410 (S0-49)
	ReasonDeleted = "deleted"                   // visible only during the deletion
)

// Get returns a subscription, without its secret. Code SubscriptionMissing if it does not exist
// (S0-86).
func (r *Registry) Get(ctx context.Context, id string) (*sluice.Subscription, error) {
	return r.load(ctx, id)
}

// Pause pauses the deliveries of an active subscription; no event is lost meanwhile. When it
// returns, this replica begins no more deliveries of it; another replica stops a moment later. by
// is the acting principal. Codes: SubscriptionMissing; Conflict if the subscription is cancelled;
// Unavailable if the ledger is not writable.
func (r *Registry) Pause(ctx context.Context, id, by string) (*sluice.Subscription, error) {
	sub, err := r.change(ctx, id, act{by: by, action: sluice.ActionSubscriptionPause}, pause)
	if err == nil {
		r.awaitApplied(ctx, sub)
	}
	return sub, err
}

// awaitApplied waits until this replica acts on the change of a subscription.
func (r *Registry) awaitApplied(ctx context.Context, sub *sluice.Subscription) {
	if r.needs.Applied != nil {
		r.needs.Applied(ctx, sub.Revision)
	}
}

// Resume activates a paused, disabled or suspended subscription. Codes as for Pause.
func (r *Registry) Resume(ctx context.Context, id, by string) (*sluice.Subscription, error) {
	return r.change(ctx, id, act{by: by, action: sluice.ActionSubscriptionResume}, resume)
}

// Disable stops the deliveries of an active subscription until it is resumed. It does nothing if
// the subscription is not active or is missing. Only the server itself disables subscriptions, so
// Disable succeeds even without the ledger.
func (r *Registry) Disable(ctx context.Context, id, reason string) error {
	return r.stop(ctx, id, sluice.Disabled, reason, func(*sluice.Subscription) (bool, error) { return true, nil })
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

// Delete removes a subscription, its consumer, its reservations and its replays. After a partial
// failure the subscription still exists, as cancelled, and can be deleted again. Code
// SubscriptionMissing.
func (r *Registry) Delete(ctx context.Context, id, by string) error {
	return r.erase(ctx, id, by, func(*sluice.Subscription) (bool, error) { return true, nil })
}

// erase is Delete that calls concerns after each read of the subscription. It returns the error of
// concerns, and does nothing if concerns returns false.
func (r *Registry) erase(ctx context.Context, id, by string, concerns func(*sluice.Subscription) (bool, error)) error {
	a := act{by: by, action: sluice.ActionSubscriptionDelete}
	var intent *ledger.Intent
	for {
		sub, err := r.load(ctx, id)
		ok := false
		if err == nil {
			ok, err = concerns(sub)
		}
		if err != nil {
			intent.Fail(ctx, err)
			return err
		}
		if !ok {
			intent.Fail(ctx, sluice.Errorf(sluice.Conflict, "the subscription was replaced meanwhile"))
			return nil
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

// remove first ensures that nothing more is delivered, removes the record last, and then publishes
// the deletion. Code Conflict after a concurrent change of the record.
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

// DeleteAll deletes the subscriptions that a namespace has at the time of the call.
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

// Rotate issues a new secret for a subscription, and returns the subscription with it. In schemes
// with multiple signatures, the old secret also signs during the overlap (C08); with 0, all earlier
// secrets end. Codes: SubscriptionMissing; InvalidRequest for a negative overlap; Conflict if the
// subscription is cancelled.
func (r *Registry) Rotate(ctx context.Context, id string, overlap time.Duration, by string) (*sluice.Subscription, error) {
	if overlap < 0 {
		return nil, sluice.Errorf(sluice.InvalidRequest, "overlap %s is negative", overlap).With("field", "overlap")
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

// rotated returns the secrets with the new one first. The previous secret expires after the
// overlap; earlier ones keep their expiry, but without an overlap all end at once. It drops expired
// secrets, and those beyond maxSecrets.
func rotated(secrets []sluice.Secret, value string, now time.Time, overlap time.Duration) []sluice.Secret {
	kept := []sluice.Secret{{Value: value, CreatedAt: now}}
	for _, s := range secrets {
		if s.ExpiresAt.IsZero() {
			s.ExpiresAt = now.Add(overlap)
		}
		if overlap > 0 && now.Before(s.ExpiresAt) && len(kept) < maxSecrets {
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

// alive returns an error (Conflict) if the subscription was cancelled, which is permanent.
func alive(sub *sluice.Subscription) error {
	if sub.State == sluice.Cancelled {
		return sluice.Errorf(sluice.Conflict, "subscription %q was cancelled (%s); create a new one", sub.ID, sub.Reason)
	}
	return nil
}

func unlessMissing(err error) error {
	if sluice.CodeOf(err) == sluice.SubscriptionMissing {
		return nil
	}
	return err
}
