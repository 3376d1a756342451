package subscription

import (
	"context"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// The methods with a subscription "of" end or stop it because of an attempt that had its settings.
// The stored subscription may be another one by then: it has got other settings, or was deleted and
// created again. They decide on the stored record, and do nothing if the reason does not concern it.

// Cancel permanently ends a subscription whose endpoint is gone (S0-49). Its record stays (S0-77);
// its consumer is removed. If by now the subscription has another endpoint, reads from another
// position or does not end with its endpoint, Cancel does nothing and returns false. Before the
// record changes, it calls first, again after a concurrent change, and returns its error. A change
// between the two calls may make it return false although it has called first. Cancel is
// idempotent, and does nothing if the subscription is missing. Like Disable, it succeeds even
// without the ledger.
func (r *Registry) Cancel(ctx context.Context, of *sluice.Subscription, first func() error) (cancelled bool, err error) {
	return r.end(ctx, of.ID, ReasonGone, func(sub *sluice.Subscription) (bool, error) {
		if !reaches(sub, of) || sub.Policy.OnGone != sluice.GoneCancels {
			return false, nil
		}
		return true, first()
	})
}

// Revoke is Cancel for a subscription whose owner lost all access to it (S0-64). If the
// subscription has another owner by now, it does nothing and returns false.
func (r *Registry) Revoke(ctx context.Context, of *sluice.Subscription) (revoked bool, err error) {
	return r.end(ctx, of.ID, sluice.ReasonAccessRevoked, func(sub *sluice.Subscription) (bool, error) {
		return sub.CreatedBy == of.CreatedBy && sub.Grant == of.Grant, nil
	})
}

// DisableFailing is Disable for a subscription whose attempts have failed for too long. It does
// nothing if the subscription has another endpoint or reads from another position by now.
func (r *Registry) DisableFailing(ctx context.Context, of *sluice.Subscription, reason string) error {
	return r.stop(ctx, of.ID, sluice.Disabled, reason, func(sub *sluice.Subscription) (bool, error) { return reaches(sub, of), nil })
}

// SuspendCostly suspends a subscription whose filter costs too much. It does nothing if the
// subscription is not active, is missing or was changed since. Like Disable, it succeeds even without
// the ledger.
func (r *Registry) SuspendCostly(ctx context.Context, of *sluice.Subscription, reason string) error {
	return r.stop(ctx, of.ID, sluice.Suspended, reason, func(sub *sluice.Subscription) (bool, error) {
		return sub.Began().Equal(of.Began()) && sub.UpdatedAt.Equal(of.UpdatedAt), nil
	})
}

// reaches reports whether a stored subscription has the endpoint and the position of an earlier
// state.
func reaches(sub, of *sluice.Subscription) bool {
	return sub.Began().Equal(of.Began()) && sub.Endpoint.URL == of.Endpoint.URL
}

// end permanently ends a subscription if concerns returns true for its record, and reports that. A
// missing one has ended.
func (r *Registry) end(ctx context.Context, id, reason string, concerns func(*sluice.Subscription) (bool, error)) (ended bool, err error) {
	sub, err := r.change(ctx, id, system(sluice.ActionSubscriptionCancel), func(sub *sluice.Subscription) (bool, error) {
		if ended, err = concerns(sub); err != nil || !ended || sub.State == sluice.Cancelled {
			return false, err
		}
		r.cancel(sub, reason)
		return true, nil
	})
	switch {
	case err != nil:
		return true, unlessMissing(err)
	case !ended:
		return false, nil
	}
	return true, r.removeConsumers(ctx, sub)
}

// stop disables or suspends an active subscription, if concerns returns true for its record.
func (r *Registry) stop(ctx context.Context, id string, state sluice.State, reason string, concerns func(*sluice.Subscription) (bool, error)) error {
	action := sluice.ActionSubscriptionDisable
	if state == sluice.Suspended {
		action = sluice.ActionSubscriptionSuspend
	}
	_, err := r.change(ctx, id, system(action), func(sub *sluice.Subscription) (bool, error) {
		if sub.State != sluice.Active {
			return false, nil
		}
		if ok, err := concerns(sub); err != nil || !ok {
			return false, err
		}
		sub.State, sub.Enabled, sub.Reason = state, false, reason
		return true, nil
	})
	return unlessMissing(err)
}
