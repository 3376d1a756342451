package registry

import (
	"context"
	"fmt"
	"slices"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// reserve makes sub the one subscription of its reservation key and stores it, or returns the
// one that is, and false. Code Conflict for an idempotency key that was used for another
// configuration.
//
// The reservation names the id before the subscription is stored under it. Whoever finds a
// reservation without a subscription stores its own under the reserved id, so that a creator
// that is slow, or gone, neither blocks others nor makes a second one: only one can be first.
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
			return sub, true, r.hold(ctx, sub)
		}
		if sluice.CodeOf(err) != sluice.Conflict {
			return nil, false, err
		}
	}
}

// mine returns an error (Conflict) if a reservation is somebody else's, or of another configuration.
func (r *Registry) mine(ctx context.Context, h holder, sub *sluice.Subscription, config string) error {
	switch {
	case h.sub != nil && sub.Grant != "" && !r.owns(ctx, h.sub):
		return sluice.Errorf(sluice.Conflict, "somebody of your name, whose grant came from others than yours, has such a subscription")
	case h.keeps() && sub.IdempotencyKey != "" && h.held.Config != config:
		return sluice.Errorf(sluice.Conflict, "idempotency_key %q was used with another configuration", sub.IdempotencyKey)
	}
	return nil
}

// claim stores sub, under an id that was reserved before or with a reservation of its own.
// Code Conflict if somebody else was faster with either.
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

// holder is who has a reservation: a subscription, one that is not stored yet, or nobody.
type holder struct {
	held     Reservation
	revision uint64 // of the reservation; 0: there is none
	sub      *sluice.Subscription
	pending  bool
}

func (h holder) keeps() bool { return h.pending || h.sub != nil }

// holder returns who has the key: nobody, too, if the reservation's subscription was
// cancelled, or was changed so that it is no longer what the key stands for.
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

// reservation returns what is reserved under the key; revision 0 if nothing is.
func (r *Registry) reservation(ctx context.Context, key string) (Reservation, uint64, error) {
	held, revision, err := r.needs.Reservations.Get(ctx, key)
	if err != nil && sluice.CodeOf(err) != sluice.NotFound {
		return Reservation{}, 0, fmt.Errorf("get reservation: %w", err)
	}
	return held, revision, nil
}

// hold reserves the subscription's structure unless another one has it, so that a request
// without idempotency key finds the subscription whatever it was made with.
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
		return nil // another one was faster, and has it now
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

// free removes a reservation, unless somebody else has changed it.
func (r *Registry) free(ctx context.Context, key string, revision uint64) error {
	err := r.needs.Reservations.Delete(ctx, key, revision)
	if err != nil && sluice.CodeOf(err) != sluice.Conflict {
		return fmt.Errorf("free reservation: %w", err)
	}
	return nil
}

// counted does what stores a new subscription if the namespace may have it. Code QuotaExceeded
// if not, and then nothing was done.
func (r *Registry) counted(ctx context.Context, sub *sluice.Subscription, store func() error) error {
	if r.needs.Quota == nil {
		return store()
	}
	if err := r.needs.Quota.Enter(ctx, sub); err != nil {
		return err
	}
	err := store()
	if err != nil {
		r.needs.Quota.Leave(sub.ID)
	}
	return err
}

// load returns a stored subscription with its revision. Code SubscriptionMissing if there is none.
func (r *Registry) load(ctx context.Context, id string) (*sluice.Subscription, error) {
	sub, revision, err := r.needs.Subscriptions.Get(ctx, id)
	if sluice.CodeOf(err) == sluice.NotFound {
		return nil, sluice.Errorf(sluice.SubscriptionMissing, "there is no subscription %q", id)
	}
	if err != nil {
		return nil, fmt.Errorf("get subscription: %w", err)
	}
	sub.Revision = revision
	return sub, nil
}
