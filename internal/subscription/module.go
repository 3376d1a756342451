package subscription

import (
	"context"
	"fmt"

	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// The methods of handlers call first, a look at the record of the module, and return its error. They
// call it after each read of the subscription, and write only if the subscription is as it was read.
// PutHandler writes it even if nothing changes. So an act whose look is older than a record changes
// nothing after a PutHandler of that record.

// PutHandler creates the subscription of a module's handler. If it exists, PutHandler changes it to
// the request and resumes it at its position. It deletes and creates it again if it is cancelled,
// or if the namespace or the ordering changes. Codes as for Put; SubscriptionDiffers if the ID
// belongs to a subscription that is not the module's; those of first.
func (r *Registry) PutHandler(ctx context.Context, id string, req *Request, by string, first func() error) (*sluice.Subscription, error) {
	if err := streams.CheckSubscriptionID(id); err != nil {
		return nil, err
	}
	for {
		if sub, err := r.tryHandler(ctx, id, req, by, first); sub != nil || err != nil {
			return sub, err
		}
	}
}

// tryHandler is a try of PutHandler. It returns nil if another try must follow.
func (r *Registry) tryHandler(ctx context.Context, id string, req *Request, by string, first func() error) (*sluice.Subscription, error) {
	sub, err := r.load(ctx, id)
	missing := sluice.CodeOf(err) == sluice.SubscriptionMissing
	if err := first(); err != nil {
		return nil, err
	}
	switch {
	case err != nil && !missing:
		return nil, err
	case !missing && sub.Module != req.Module:
		return nil, sluice.Errorf(sluice.SubscriptionDiffers, "the id %q is in use; give the handler another id in its manifest", id)
	}
	want, err := r.prepare(ctx, req, by)
	if err != nil {
		return nil, err
	}
	want.ID = id
	if missing {
		return r.storeNew(ctx, want)
	}
	return r.putOver(ctx, sub, want, first)
}

// putOver changes the subscription of a handler as PutHandler does. It returns nil if the subscription
// is missing or another one by now, also because it has deleted it.
func (r *Registry) putOver(ctx context.Context, sub, want *sluice.Subscription, first func() error) (*sluice.Subscription, error) {
	if !continues(sub, want) {
		return nil, unlessMissing(r.erase(ctx, want.ID, want.CreatedBy, func(sub *sluice.Subscription) (bool, error) {
			return sub.Module == want.Module && !continues(sub, want), first()
		}))
	}
	a := act{by: want.CreatedBy, action: sluice.ActionSubscriptionUpdate, event: sluice.TypeSubscriptionUpdated}
	written := false
	after, err := r.change(ctx, want.ID, a, func(sub *sluice.Subscription) (bool, error) {
		if err := first(); err != nil {
			return false, err
		}
		if written = continues(sub, want); !written {
			return false, nil
		}
		if err := r.follow(ctx, sub, want.Pattern); err != nil {
			return false, err
		}
		sub.Filter, sub.Endpoint, sub.Policy = want.Filter, want.Endpoint, want.Policy
		sub.CreatedBy, sub.Grant = want.CreatedBy, want.Grant
		sub.State, sub.Enabled, sub.Reason = sluice.Active, true, ""
		return true, nil
	})
	if err != nil || !written {
		return nil, unlessMissing(err)
	}
	r.awaitApplied(ctx, after)
	return after, nil
}

// continues reports whether a subscription can be changed to the wanted one of a module at its
// position.
func continues(sub, want *sluice.Subscription) bool {
	return sub.Module == want.Module && sub.State != sluice.Cancelled && sub.Namespace == want.Namespace && sub.Policy.Ordering == want.Policy.Ordering
}

// PauseHandler is Pause for the subscription of a module's handler. It does nothing if the
// subscription is not active, is missing or is not the module's. Codes Unavailable if the ledger is
// not writable; those of first.
func (r *Registry) PauseHandler(ctx context.Context, module, id, by string, first func() error) error {
	sub, err := r.change(ctx, id, act{by: by, action: sluice.ActionSubscriptionPause}, func(sub *sluice.Subscription) (bool, error) {
		if sub.State != sluice.Active || sub.Module != module {
			return false, nil
		}
		if err := first(); err != nil {
			return false, err
		}
		return pause(sub)
	})
	if err == nil {
		r.awaitApplied(ctx, sub)
	}
	return unlessMissing(err)
}

// SuspendHandler suspends the subscription of a module's handler. It does nothing if the subscription
// is not active, is missing or is not the module's. Like Disable, it succeeds even without the
// ledger. Codes: those of first.
func (r *Registry) SuspendHandler(ctx context.Context, module, id, reason string, first func() error) error {
	return r.stop(ctx, id, sluice.Suspended, reason, ofModule(module, first))
}

// DeleteHandler is Delete for the subscription of a module's handler. It does nothing if the
// subscription is missing or is not the module's. Codes: those of first.
func (r *Registry) DeleteHandler(ctx context.Context, module, id, by string, first func() error) error {
	return unlessMissing(r.erase(ctx, id, by, ofModule(module, first)))
}

// ofModule returns a function that reports whether a subscription is a module's, and calls first if
// it is.
func ofModule(module string, first func() error) func(*sluice.Subscription) (bool, error) {
	return func(sub *sluice.Subscription) (bool, error) {
		if sub.Module != module {
			return false, nil
		}
		return true, first()
	}
}

// follow changes the pattern of a subscription, which continues at the first event that it may not
// have settled. As after a seek, its consumers are created again, and lanes that wait for a retry
// are abandoned: their events are delivered again, and so may later ones that were settled.
func (r *Registry) follow(ctx context.Context, sub *sluice.Subscription, pattern sluice.Pattern) error {
	if err := alive(sub); err != nil || sub.Pattern == pattern {
		return err
	}
	place, err := r.needs.Consumers.Place(ctx, sub)
	if err != nil {
		return fmt.Errorf("place of %s: %w", sub.ID, err)
	}
	now := r.needs.Now().UTC()
	sub.Pattern, sub.From, sub.SoughtAt = pattern, sluice.StartAt{Kind: sluice.StartSeq, Seq: place}, &now
	return nil
}
