package subscription

import (
	"context"
	"fmt"
	"reflect"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// PutHandler creates the subscription of a module's handler. If it exists, PutHandler changes it to
// the request and resumes it at its position. It deletes and creates it again if it is cancelled,
// or if the namespace or the ordering changes. Codes as for Put; SubscriptionDiffers if the ID
// belongs to a subscription that is not the module's; Conflict if it is cancelled meanwhile.
func (r *Registry) PutHandler(ctx context.Context, id string, req *Request, by string) (*sluice.Subscription, error) {
	existing, err := r.load(ctx, id)
	if sluice.CodeOf(err) == sluice.SubscriptionMissing {
		created, _, err := r.Put(ctx, id, req, by)
		return created, err
	}
	if err != nil {
		return nil, err
	}
	if existing.Module != req.Module {
		return nil, sluice.Errorf(sluice.SubscriptionDiffers, "the id %q is in use; give the handler another id in its manifest", id)
	}
	want, err := r.prepare(ctx, req, by)
	if err != nil {
		return nil, err
	}
	if existing.State == sluice.Cancelled || existing.Namespace != want.Namespace || existing.Policy.Ordering != want.Policy.Ordering {
		if err := unlessMissing(r.Delete(ctx, id, by)); err != nil {
			return nil, err
		}
		created, _, err := r.Put(ctx, id, req, by)
		return created, err
	}
	a := act{by: by, action: sluice.ActionSubscriptionUpdate, event: sluice.TypeSubscriptionUpdated}
	after, err := r.change(ctx, id, a, func(sub *sluice.Subscription) (bool, error) {
		before := *sub
		if err := r.follow(ctx, sub, want.Pattern); err != nil {
			return false, err
		}
		sub.Filter, sub.Endpoint, sub.Policy = want.Filter, want.Endpoint, want.Policy
		sub.CreatedBy, sub.Grant = want.CreatedBy, want.Grant
		sub.State, sub.Enabled, sub.Reason = sluice.Active, true, ""
		return !reflect.DeepEqual(&before, sub), nil
	})
	if err == nil {
		r.awaitApplied(ctx, after)
	}
	return after, err
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
