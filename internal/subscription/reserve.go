package subscription

import (
	"context"
	"fmt"
	"slices"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// reserve stores sub as the only subscription with its reservation key, or returns the existing
// one, and false. Code Conflict for an idempotency key that was used with a different
// configuration.
//
// The reservation names the ID before the subscription is stored under it. A creator that finds a
// reservation without a subscription stores its own under the reserved ID. So a slow or dead
// creator does not block others, and cannot create a second subscription, because only one can be
// stored under the ID.
func (r *Registry) reserve(ctx context.Context, sub *sluice.Subscription) (*sluice.Subscription, bool, error) {
	key, err := reservationKey(sub)
	if err != nil {
		return nil, false, err
	}
	config, err := configHash(sub)
	if err != nil {
		return nil, false, err
	}
	mine := Reservation{Subscription: sub.ID, Config: config}
	for {
		h, err := r.holder(ctx, key)
		if err != nil {
			return nil, false, err
		}
		if err := r.mine(ctx, h, sub, config); err != nil {
			return nil, false, err
		}
		if h.sub != nil {
			return h.sub, false, nil
		}
		err = r.claim(ctx, key, mine, h, sub)
		if err == nil {
			return sub, true, r.holdToo(ctx, sub)
		}
		if sluice.CodeOf(err) != sluice.Conflict {
			return nil, false, err
		}
	}
}

// mine returns an error (Conflict) if a reservation belongs to another principal or configuration.
func (r *Registry) mine(ctx context.Context, h holder, sub *sluice.Subscription, config string) error {
	switch {
	case h.sub != nil && sub.Grant != "" && !r.owns(ctx, h.sub):
		return sluice.Errorf(sluice.Conflict, "the same principal has such a subscription under a grant from another issuer")
	case h.keeps() && sub.IdempotencyKey != "" && h.held.Config != config:
		return keyDiffers(sub)
	}
	return nil
}

func keyDiffers(sub *sluice.Subscription) error {
	return sluice.Errorf(sluice.Conflict, "idempotency_key %q was used with a different configuration", sub.IdempotencyKey)
}

// claim stores sub under the ID of a pending reservation, or with a new reservation. Code Conflict
// if another creator was faster.
func (r *Registry) claim(ctx context.Context, key string, mine Reservation, h holder, sub *sluice.Subscription) error {
	sub.ID = mine.Subscription
	if h.pending {
		sub.ID = h.held.Subscription
		return r.store(ctx, sub)
	}
	return r.counted(ctx, sub, func() error {
		if _, err := r.needs.Reservations.Put(ctx, key, mine, h.revision); err != nil {
			return fmt.Errorf("reserve: %w", err)
		}
		return r.make(ctx, sub)
	})
}

// holder is the state of a reservation key: held by a subscription, pending because its
// subscription is not stored yet, or free.
type holder struct {
	held     Reservation
	revision uint64 // revision of the reservation; 0: none
	sub      *sluice.Subscription
	pending  bool
}

func (h holder) keeps() bool { return h.pending || h.sub != nil }

// holder returns the holder of a key. The key is also free if its subscription was cancelled, or
// changed so that it no longer matches the key.
func (r *Registry) holder(ctx context.Context, key string) (holder, error) {
	held, revision, err := r.reservation(ctx, key)
	h := holder{held: held, revision: revision}
	if err != nil || revision == 0 {
		return h, err
	}
	sub, err := r.load(ctx, held.Subscription)
	if sluice.CodeOf(err) == sluice.SubscriptionMissing {
		h.pending = true
		return h, nil
	}
	if err != nil {
		return h, err
	}
	keys, err := keysOf(sub)
	if err == nil && sub.State != sluice.Cancelled && slices.Contains(keys, key) {
		h.sub = sub
	}
	return h, err
}

// keysOf returns the keys under which a subscription can be reserved.
func keysOf(sub *sluice.Subscription) ([]string, error) {
	byKey, err := reservationKey(sub)
	if err != nil {
		return nil, err
	}
	byStructure, err := structureKey(sub)
	return []string{byKey, byStructure}, err
}

// reservation returns the reservation of a key; revision 0: there is none.
func (r *Registry) reservation(ctx context.Context, key string) (Reservation, uint64, error) {
	held, revision, err := r.needs.Reservations.Get(ctx, key)
	if err != nil && sluice.CodeOf(err) != sluice.NotFound {
		return Reservation{}, 0, fmt.Errorf("get reservation: %w", err)
	}
	return held, revision, nil
}

// holdToo also reserves the structure of a new subscription that has an idempotency key. A
// subscription without one is reserved by its structure already.
func (r *Registry) holdToo(ctx context.Context, sub *sluice.Subscription) error {
	if sub.IdempotencyKey == "" {
		return nil
	}
	return r.hold(ctx, sub)
}

// hold reserves the subscription's structure unless another subscription holds it, so that a
// request without an idempotency key finds the subscription however it was created.
func (r *Registry) hold(ctx context.Context, sub *sluice.Subscription) error {
	key, err := structureKey(sub)
	if err != nil {
		return err
	}
	other, err := r.holder(ctx, key)
	if err != nil || other.keeps() {
		return err
	}
	config, err := configHash(sub)
	if err != nil {
		return err
	}
	_, err = r.needs.Reservations.Put(ctx, key, Reservation{Subscription: sub.ID, Config: config}, other.revision)
	if sluice.CodeOf(err) == sluice.Conflict {
		return nil // another subscription holds it now
	}
	return err
}

// release frees the keys that the subscription holds.
func (r *Registry) release(ctx context.Context, sub *sluice.Subscription) error {
	keys, err := keysOf(sub)
	if err != nil {
		return err
	}
	for _, key := range keys {
		held, revision, err := r.reservation(ctx, key)
		if err != nil {
			return err
		}
		if held.Subscription != sub.ID {
			continue
		}
		if err := r.free(ctx, key, revision); err != nil {
			return err
		}
	}
	return nil
}

// free removes a reservation, unless it was changed concurrently.
func (r *Registry) free(ctx context.Context, key string, revision uint64) error {
	err := r.needs.Reservations.Delete(ctx, key, revision)
	if err != nil && sluice.CodeOf(err) != sluice.Conflict {
		return fmt.Errorf("free reservation: %w", err)
	}
	return nil
}

// counted runs store for a new subscription, after it has counted the subscription and, if
// required, the endpoint has agreed. It asks the endpoint last, so that an endpoint is asked only
// for a subscription that is about to be stored. Otherwise store is not run. Codes: InvalidRequest
// if the credentials that the endpoint needs are missing; QuotaExceeded; Unprocessable if the
// endpoint does not agree; those of store.
func (r *Registry) counted(ctx context.Context, sub *sluice.Subscription, store func() error) error {
	if err := checkCredentials(sub, r.needs.Now()); err != nil {
		return err
	}
	if r.needs.Quota == nil {
		return r.agreed(ctx, sub, store)
	}
	if err := r.needs.Quota.Enter(ctx, sub); err != nil {
		return err
	}
	err := r.agreed(ctx, sub, store)
	if err != nil {
		r.needs.Quota.Leave(sub.ID)
	}
	return err
}

// agreed runs store for a new subscription after its endpoint has agreed, if required.
func (r *Registry) agreed(ctx context.Context, sub *sluice.Subscription, store func() error) error {
	if sub.Agreed == nil { // not nil at a retry, after another caller was faster with the ID
		if err := r.shakeHands(ctx, sub); err != nil {
			return err
		}
	}
	return store()
}

// load returns a stored subscription with its revision. Code SubscriptionMissing if it does not
// exist.
func (r *Registry) load(ctx context.Context, id string) (*sluice.Subscription, error) {
	sub, revision, err := r.needs.Subscriptions.Get(ctx, id)
	if sluice.CodeOf(err) == sluice.NotFound {
		return nil, sluice.Errorf(sluice.SubscriptionMissing, "subscription %q not found; GET /v1/subscriptions (sluice sub ls) lists those there are", id)
	}
	if err != nil {
		return nil, fmt.Errorf("get subscription: %w", err)
	}
	sub.Revision = revision
	return sub, nil
}
