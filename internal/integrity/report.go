package integrity

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/sluice-io/sluice/internal/ledger"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/natsstore/deliverystore"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// staleReason is the reason with which a subscription with a stale record is disabled.
const staleReason = "the store's files were damaged, and the subscription's last change is lost: check its settings, then resume it"

// Reporter reports damage to the ledger, to subscribers of system events and to the subscriptions
// that may have missed events. All fields are required.
type Reporter struct {
	Memory   *Memory
	Store    *natsstore.Store
	Letters  *deliverystore.AttemptLog
	Ledger   *ledger.Ledger
	Announce interface {
		Damaged(ctx context.Context, d sluice.Damage)
	}
	Registry interface {
		Disable(ctx context.Context, id, reason string) error
	}
	Observe interface {
		Buried(sub *sluice.Subscription, reason sluice.Reason)
	}
	Log *slog.Logger
}

// Found records damage in the ledger and publishes it in the namespace's log. Found does not retry
// if the ledger or the log fails: damage.json keeps the damage.
func (r Reporter) Found(ctx context.Context, found []sluice.Damage) {
	for _, d := range found {
		r.Ledger.Note(ctx, nil, ledger.Change{
			Actor: sluice.ActorSystem, Action: sluice.ActionStorageDamage, Namespace: d.Namespace, Resource: strings.TrimSuffix(d.Stream+"/"+d.Key, "/"), New: d,
		})
		r.Announce.Damaged(ctx, d)
	}
}

// Missed creates a dead letter for each subscription and each unreadable range of its log, unless
// the subscription had received the events in it (decision 0029). The cost is O(subscriptions ×
// damage). It can be repeated.
func (r Reporter) Missed(ctx context.Context, owed []Owed) error {
	subs, err := r.Store.Subscriptions().List(ctx)
	if err != nil {
		return err
	}
	for _, sub := range subs {
		for _, d := range owed {
			if err := r.bury(ctx, sub, d); err != nil {
				return err
			}
		}
	}
	return nil
}

// bury creates a dead letter for the events that the subscription may have missed, if there are
// any.
func (r Reporter) bury(ctx context.Context, sub *sluice.Subscription, d Owed) error {
	from, to, ok := MissedBy(sub, d.Damage, d.Had[sub.ID])
	if !ok {
		return nil
	}
	letter := sluice.DeadLetter{
		Subscription: sub.ID, Namespace: sub.Namespace, Seq: from, LastSeq: to, Path: d.Path,
		Reason: sluice.Unreadable, LastError: d.String(), At: time.Now().UTC(),
	}
	buried, err := r.Letters.BuryGap(ctx, sub, letter)
	if err == nil && buried {
		r.Observe.Buried(sub, letter.Reason)
		r.Log.WarnContext(ctx, "a subscription may have missed unreadable events",
			slog.String("subscription", sub.ID), slog.Uint64("from", from), slog.Uint64("to", to))
	}
	return err
}

// Hold disables the subscriptions with stale records, which may have been paused in a lost
// revision. They stay disabled until they are resumed. It also records the damage that this start
// has found in the ledger. Call it after Examine and before deliveries begin.
func (r Reporter) Hold(ctx context.Context) error {
	r.Found(ctx, r.Memory.Fresh())
	for id, d := range r.Memory.OfBucket(streams.Subscriptions) {
		if d.Kind != sluice.DamageStale {
			continue
		}
		_, revision, err := r.Store.Subscriptions().Get(ctx, id)
		if sluice.CodeOf(err) == sluice.NotFound || err == nil && revision > d.To {
			continue // it was changed since
		}
		if err != nil {
			return err
		}
		if err := r.Registry.Disable(ctx, id, staleReason); err != nil {
			return err
		}
	}
	return nil
}
