package registry

import (
	"context"
	"fmt"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Seek lets a subscription go on from another place of its log: "all" or "-1" (the beginning of
// what is kept), "new" or "now" (what comes), "last_per_path", a sequence, a time (RFC 3339), or
// an event's id. What is delivered next is the first event there, whether it was delivered
// before or not. Lanes that waited for a retry are given up for it without dead letters: what
// they waited for comes again if it lies there.
//
// Codes: SubscriptionMissing; Conflict if it is cancelled; InvalidRequest; NotFound for an event
// that is not in the log; WindowExceeded for a sequence that is no longer kept.
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
		return sub, err // whoever serves it makes its consumer anew, and two at once would take it from one another
	}
	if err := r.needs.Consumers.Ensure(ctx, sub); err != nil {
		return nil, fmt.Errorf("ensure consumer of %s: %w", id, err)
	}
	return sub, nil
}

// place resolves where a subscription is to go on.
func (r *Registry) place(ctx context.Context, namespace, to string) (sluice.StartAt, error) {
	switch to {
	case "":
		return sluice.StartAt{}, sluice.Errorf(sluice.InvalidRequest, "say where: {\"to\": a sequence, an event's id, a time, \"all\" or \"new\"}")
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
		return at, sluice.Errorf(sluice.InvalidRequest, "%s is yet to come; \"new\" stands for what comes", to)
	}
	if at.Kind == sluice.StartSeq && at.Seq > last+1 {
		return at, sluice.Errorf(sluice.InvalidRequest, "the log ends at %d; \"new\" stands for what comes", last).With("current_seq", last)
	}
	if at.Kind == sluice.StartSeq && at.Seq < first && to != sluice.StartAll {
		return at, sluice.Errorf(sluice.WindowExceeded, "the log begins at %d; what lies before is no longer kept", first).
			With("oldest_available_seq", first).With("current_seq", last)
	}
	return at, nil
}
