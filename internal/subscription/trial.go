package subscription

import (
	"cmp"
	"context"

	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// Trial is a dry run of creations. It checks what Create checks, but stores nothing and asks no
// endpoint for its agreement. Add takes into account the subscriptions that earlier requests would
// create.
type Trial struct {
	r       *Registry
	enter   func(context.Context, *sluice.Subscription) error
	planned map[string]*sluice.Subscription // by ID and by the keys that would be reserved
}

// Plan is a request that Check has checked, without regard to the trial's other requests.
type Plan struct {
	req      *Request
	sub      *sluice.Subscription // what Create would store
	existing *sluice.Subscription // what Create would return instead; nil: none
	keys     []string             // keys under which later requests would find sub
}

// ID returns the ID of the existing subscription, or the one that the client chose; "" if the ID
// would be generated.
func (p *Plan) ID() string {
	if p.existing != nil {
		return p.existing.ID
	}
	return p.req.ID
}

// NewTrial returns a trial without requests.
func (r *Registry) NewTrial() *Trial {
	t := &Trial{r: r, planned: map[string]*sluice.Subscription{}}
	if r.needs.Quota != nil {
		t.enter = r.needs.Quota.Trial()
	}
	return t
}

// Keys returns keys that requests for the same subscription share: the ID that the client chose, or
// else the reservation keys; none if the request is invalid.
func (r *Request) Keys(by string) []string {
	if r.ID != "" {
		return []string{"id " + r.ID}
	}
	sub, err := r.subscription()
	if err != nil {
		return nil
	}
	sub.CreatedBy, sub.Namespace = by, cmp.Or(sub.Namespace, sluice.DefaultNamespace)
	complete(sub)
	keys, err := keysOf(sub)
	if err != nil {
		return nil
	}
	return keys
}

// Check checks a request without regard to other requests of the trial. It is safe for concurrent
// use. Codes are those of Create.
func (t *Trial) Check(ctx context.Context, req *Request, by string) (*Plan, error) {
	if req.ID != "" {
		return t.checkNamed(ctx, req, by)
	}
	sub, err := t.r.named(ctx, req, by)
	if err != nil {
		return nil, err
	}
	config, err := configHash(sub)
	if err != nil {
		return nil, err
	}
	keys := req.Keys(by)
	h, err := t.r.holder(ctx, keys[0])
	if err == nil {
		err = t.r.mine(ctx, h, sub, config)
	}
	return &Plan{req: req, sub: sub, existing: h.sub, keys: keys}, err
}

// checkNamed is Check for an ID chosen by the client.
func (t *Trial) checkNamed(ctx context.Context, req *Request, by string) (*Plan, error) {
	if err := streams.CheckSubscriptionID(req.ID); err != nil {
		return nil, err
	}
	if found, err := t.r.same(ctx, req.ID, req, by); found != nil || err != nil {
		return &Plan{existing: found}, err
	}
	sub, err := t.r.prepare(ctx, req, by)
	if err != nil {
		return nil, err
	}
	sub.ID = req.ID
	plan := &Plan{req: req, sub: sub, keys: req.Keys(by)}
	existing, err := t.r.load(ctx, req.ID)
	if sluice.CodeOf(err) == sluice.SubscriptionMissing {
		return plan, t.r.needs.Subscriptions.RequireUnused(ctx, req.ID)
	}
	if err == nil {
		plan.existing, err = existing, t.r.repeats(ctx, req, sub, existing)
	}
	return plan, err
}

// Add adds a checked request to the earlier ones, and reports whether Create would create a
// subscription. It is not safe for concurrent use. Codes: InvalidRequest if credentials are
// missing; QuotaExceeded; Conflict or SubscriptionDiffers if an earlier request has the same key or
// ID with a different configuration.
func (t *Trial) Add(ctx context.Context, p *Plan) (created bool, err error) {
	if p.existing != nil {
		return false, nil
	}
	if earlier := t.planned[p.keys[0]]; earlier != nil {
		return false, p.repeats(earlier)
	}
	if err := checkCredentials(p.sub, t.r.needs.Now()); err != nil {
		return false, err
	}
	if t.enter != nil {
		if err := t.enter(ctx, p.sub); err != nil {
			return false, err
		}
	}
	for _, key := range p.keys {
		if t.planned[key] == nil {
			t.planned[key] = p.sub
		}
	}
	return true, nil
}

// repeats returns an error if the request has the same key or ID as an earlier one of the trial,
// but another configuration.
func (p *Plan) repeats(earlier *sluice.Subscription) error {
	if p.req.ID != "" {
		return sameAs(p.req, p.sub, earlier)
	}
	if p.sub.IdempotencyKey == "" {
		return nil
	}
	was, err := configHash(earlier)
	if err != nil {
		return err
	}
	is, err := configHash(p.sub)
	if err == nil && is != was {
		err = keyDiffers(p.sub)
	}
	return err
}
