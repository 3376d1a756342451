package subscription

import (
	"context"
	"fmt"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Seek moves a subscription to another position in the log: "all" or "-1" (the oldest stored
// event), "new" or "now" (new events), "last_per_path", a sequence, a time (RFC 3339), or an event
// ID. The event at the new position is delivered next, even if it was delivered before. Lanes that
// wait for a retry are abandoned without dead letters. Their events are delivered again if they are
// behind the new position.
//
// Codes: SubscriptionMissing; Conflict if it is cancelled; InvalidRequest; NotFound for an event
// that is not in the log; WindowExceeded for a sequence that is no longer stored.
func (r *Registry) Seek(ctx context.Context, id, to, by string) (*sluice.Subscription, error) {
	sub, err := r.load(ctx, id)
	if err != nil {
		return nil, err
	}
	at, err := r.place(ctx, sub.Namespace, to)
	if err != nil {
		return nil, notThere(err, sub, "to", to)
	}
	sub, err = r.change(ctx, id, act{by: by, action: sluice.ActionSubscriptionSeek, event: sluice.TypeSubscriptionUpdated, to: to}, func(sub *sluice.Subscription) (bool, error) {
		if err := alive(sub); err != nil {
			return false, err
		}
		now := r.needs.Now().UTC()
		sub.From, sub.SoughtAt = at, &now
		return true, nil
	})
	if err != nil || sub.State == sluice.Active {
		// The replica that serves the subscription recreates its consumer. Doing so here as well
		// would conflict.
		return sub, err
	}
	if err := r.needs.Consumers.Ensure(ctx, sub); err != nil {
		return nil, fmt.Errorf("ensure consumer of %s: %w", id, err)
	}
	return sub, nil
}

// place resolves the target position.
func (r *Registry) place(ctx context.Context, namespace, to string) (sluice.StartAt, error) {
	switch to {
	case "":
		return sluice.StartAt{}, sluice.Errorf(sluice.InvalidRequest, "to is missing: {\"to\": a sequence, an event ID, a time, \"all\" or \"new\"}")
	case "-1":
		to = sluice.StartAll
	case "now":
		to = sluice.StartNew
	}
	first, last, err := r.needs.Logs.Bounds(ctx, namespace)
	if err != nil {
		return sluice.StartAt{}, err
	}
	at, err := sluice.ParseStart(to, last+1)
	if err != nil {
		e, err := r.event(ctx, namespace, to)
		return sluice.StartAt{Kind: sluice.StartSeq, Seq: e.Seq}, err
	}
	if at.Kind == sluice.StartTime && at.Time.After(r.needs.Now()) {
		return at, sluice.Errorf(sluice.InvalidRequest, "%s is in the future; use \"new\" for new events", to)
	}
	if at.Kind == sluice.StartSeq && at.Seq > last+1 {
		return at, sluice.Errorf(sluice.InvalidRequest, "the log ends at %d; use \"new\" for new events", last).With("current_seq", last)
	}
	if at.Kind == sluice.StartSeq && at.Seq < first && to != sluice.StartAll {
		return at, sluice.Errorf(sluice.WindowExceeded, "the log starts at %d; earlier events are no longer stored", first).
			With("oldest_available_seq", first).With("current_seq", last)
	}
	return at, nil
}
