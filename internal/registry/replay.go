package registry

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/sluice-io/sluice/internal/ledger"
	"github.com/sluice-io/sluice/pkg/sluice"
)

const (
	maxReplays = 8   // of one subscription that run at once
	keptEnded  = 100 // replays that have ended and are kept
)

// Replays keeps the records of replays.
type Replays interface {
	// Add stores a new replay.
	Add(ctx context.Context, rep sluice.Replay) error
	// Replay returns a replay as it is stored now; only its id and subscription are looked at. Code NotFound.
	Replay(ctx context.Context, rep sluice.Replay) (sluice.Replay, error)
	// Of returns the replays of a subscription, newest first.
	Of(ctx context.Context, subscription string) ([]sluice.Replay, error)
	// Drop deletes a replay's record.
	Drop(ctx context.Context, rep sluice.Replay) error
	// Remove deletes all replays of a subscription.
	Remove(ctx context.Context, subscription string) error
	// Progress changes what is stored of a replay; one that has ended keeps how.
	Progress(ctx context.Context, rep sluice.Replay, change func(*sluice.Replay)) error
}

// ReplayLogs reads what a replay would deliver.
type ReplayLogs interface {
	// Resolve returns the sequence after which a cursor lies. Codes NotFound; WindowExceeded.
	Resolve(ctx context.Context, namespace, cursor string) (uint64, error)
	// ReadLane returns the next events of a subscription's pattern from a sequence on.
	ReadLane(ctx context.Context, sub *sluice.Subscription, path sluice.Path, from uint64, limit int) ([]sluice.Event, uint64, error)
}

// ReplayRequest says what is to be delivered again. From and To are a sequence, an event's id or
// a time, both inclusive; empty: from the beginning of what is kept, up to what is there now.
type ReplayRequest struct {
	From     string
	To       string
	Types    []string // patterns of types; empty: all
	EventIDs []string // empty: all
	Rate     sluice.Rate
}

// Replay starts a replay of past events and returns it. Codes: SubscriptionMissing; Conflict if
// the subscription is cancelled; QuotaExceeded if too many of its replays are running;
// InvalidRequest; NotFound for an event that is not there; WindowExceeded for one that is no
// longer kept.
func (r *Registry) Replay(ctx context.Context, id string, req ReplayRequest, by string) (sluice.Replay, error) {
	sub, rep, err := r.plan(ctx, id, req)
	if err != nil {
		return rep, err
	}
	rep.CreatedBy = by
	return r.Start(ctx, sub, rep)
}

// Start starts a replay: Kind, From, To, Types, EventIDs, Rate, Total and CreatedBy are the
// caller's, the rest is filled in. One that acts on a lane does not count as running; if the same was
// asked for and is not done yet, that one is returned. Codes Conflict; QuotaExceeded.
func (r *Registry) Start(ctx context.Context, sub *sluice.Subscription, rep sluice.Replay) (sluice.Replay, error) {
	if err := alive(sub); err != nil {
		return rep, err
	}
	others, err := r.needs.Replays.Of(ctx, sub.ID)
	if err != nil {
		return rep, err
	}
	running, err := r.tidy(ctx, others)
	if err != nil {
		return rep, err
	}
	if rep.Acts() {
		if i := slices.IndexFunc(others, func(o sluice.Replay) bool { return sameAct(&o, &rep, sub) }); i >= 0 {
			return others[i], nil
		}
	} else if running >= maxReplays {
		return rep, sluice.Errorf(sluice.QuotaExceeded, "%d replays of %q are running; wait for one to end, or cancel it", running, sub.ID)
	}
	id, err := uuid.NewV7()
	if err != nil {
		return rep, fmt.Errorf("make an id: %w", err)
	}
	rep.ID, rep.Subscription, rep.Namespace, rep.State = id.String(), sub.ID, sub.Namespace, sluice.ReplayRunning
	rep.Next, rep.Began = rep.From, sub.Began()
	rep.CreatedAt = r.needs.Now().UTC()
	rep.UpdatedAt = rep.CreatedAt
	intent, err := r.needs.Ledger.Intend(ctx, nil, ledger.Change{
		Actor: rep.CreatedBy, Action: actionOf(rep.Kind), Namespace: sub.Namespace, Resource: sub.ID, New: rep,
	})
	if err != nil {
		return rep, err
	}
	if err := r.needs.Replays.Add(ctx, rep); err != nil {
		intent.Fail(ctx, err)
		return rep, err
	}
	return rep, nil
}

// tidy deletes old records of replays, newest first, and returns how many are running.
func (r *Registry) tidy(ctx context.Context, all []sluice.Replay) (running int, err error) {
	ended := 0
	for _, rep := range all {
		switch {
		case rep.State == sluice.ReplayRunning && rep.Acts():
			continue
		case rep.State == sluice.ReplayRunning:
			running++
			continue
		}
		if ended++; ended < keptEnded {
			continue
		}
		if err := r.needs.Replays.Drop(ctx, rep); err != nil {
			return 0, err
		}
	}
	return running, nil
}

// sameAct reports whether a replay does to the lane of an event what another one is to do.
func sameAct(rep, other *sluice.Replay, sub *sluice.Subscription) bool {
	return rep.State == sluice.ReplayRunning && rep.Kind == other.Kind && rep.From == other.From && rep.Began.Equal(sub.Began())
}

// actionOf returns what the ledger calls a replay's beginning.
func actionOf(kind sluice.ReplayKind) string {
	switch kind {
	case sluice.ReplayRetry:
		return sluice.ActionDeliveryRetry
	case sluice.ReplayDiscard:
		return sluice.ActionDeliveryDiscard
	case sluice.ReplayRange, sluice.ReplayDeadLetters:
	}
	return sluice.ActionReplayStart
}

// Replays returns the replays of a subscription, newest first. Code SubscriptionMissing.
func (r *Registry) Replays(ctx context.Context, id string) ([]sluice.Replay, error) {
	if _, err := r.load(ctx, id); err != nil {
		return nil, err
	}
	return r.needs.Replays.Of(ctx, id)
}

// GetReplay returns a replay. Codes SubscriptionMissing; NotFound.
func (r *Registry) GetReplay(ctx context.Context, id, replay string) (sluice.Replay, error) {
	if _, err := r.load(ctx, id); err != nil {
		return sluice.Replay{}, err
	}
	return r.needs.Replays.Replay(ctx, sluice.Replay{ID: replay, Subscription: id})
}

// CancelReplay ends a replay and returns it. What is under way is finished. One that has ended
// already stays as it is. Codes SubscriptionMissing; NotFound.
func (r *Registry) CancelReplay(ctx context.Context, id, replay, by string) (sluice.Replay, error) {
	rep, err := r.GetReplay(ctx, id, replay)
	if err != nil {
		return rep, err
	}
	ended := rep
	ended.State = sluice.ReplayCancelled
	intent, err := r.needs.Ledger.Intend(ctx, nil, ledger.Change{
		Actor: by, Action: sluice.ActionReplayCancel, Namespace: rep.Namespace, Resource: id, Old: rep, New: ended,
	})
	if err != nil {
		return rep, err
	}
	err = r.needs.Replays.Progress(ctx, rep, func(rep *sluice.Replay) {
		now := r.needs.Now().UTC()
		rep.State, rep.Reason, rep.EndedAt, rep.UpdatedAt = sluice.ReplayCancelled, "cancelled by "+by, &now, now
	})
	if err != nil {
		intent.Fail(ctx, err)
		return rep, err
	}
	return r.needs.Replays.Replay(ctx, rep)
}

// plan resolves a request.
func (r *Registry) plan(ctx context.Context, id string, req ReplayRequest) (*sluice.Subscription, sluice.Replay, error) {
	rep := sluice.Replay{Kind: sluice.ReplayRange, Types: req.Types, EventIDs: req.EventIDs, Rate: req.Rate}
	sub, err := r.load(ctx, id)
	if err != nil {
		return nil, rep, err
	}
	if err := alive(sub); err != nil {
		return nil, rep, err
	}
	if err := req.check(); err != nil {
		return nil, rep, err
	}
	if rep.From, err = r.first(ctx, sub, req.From); err != nil {
		return nil, rep, notThere(err, sub, "from", req.From)
	}
	if rep.To, err = r.last(ctx, sub, req.To); err != nil {
		return nil, rep, notThere(err, sub, "to", req.To)
	}
	if rep.To+1 > rep.From {
		rep.Total = rep.To - rep.From + 1
	}
	if c, err := sluice.ParseCursor(req.From); err == nil && (c.Kind == sluice.CursorSeq || c.Kind == sluice.CursorEvent) && rep.From > rep.To+1 {
		return nil, rep, sluice.Errorf(sluice.InvalidRequest, "from %q is at sequence %d, and the last event would be at %d: there is nothing to replay", req.From, rep.From, rep.To).With("field", "from")
	}
	return sub, rep, nil
}

// check returns an error (InvalidRequest) for what can be told without the log.
func (req *ReplayRequest) check() error {
	for name, rate := range map[string]float64{"rate.per_second": req.Rate.PerSecond, "rate.per_minute": req.Rate.PerMinute} {
		if rate < 0 {
			return sluice.Errorf(sluice.InvalidRequest, "%s %v is negative", name, rate).With("field", name)
		}
	}
	if slices.Contains(req.EventIDs, "") {
		return sluice.Errorf(sluice.InvalidRequest, "event_ids has an empty id").With("field", "event_ids")
	}
	return nil
}

// notThere says of a place that is no event's what it may be.
func notThere(err error, sub *sluice.Subscription, field, place string) error {
	if sluice.CodeOf(err) != sluice.NotFound {
		return err
	}
	return sluice.Errorf(sluice.NotFound, "%s %q: there is no event of that id in %s, and it is neither a sequence nor an RFC 3339 time such as 2026-01-31T00:00:00Z",
		field, place, sub.Namespace).With("field", field)
}

// first returns the first sequence of a replay.
func (r *Registry) first(ctx context.Context, sub *sluice.Subscription, cursor string) (uint64, error) {
	c, err := sluice.ParseCursor(cmp.Or(cursor, "-1"))
	switch {
	case err != nil:
		return 0, err
	case c.Kind == sluice.CursorEvent:
		ev, err := r.event(ctx, sub.Namespace, cursor)
		return ev.Seq, err
	case c.Kind == sluice.CursorSeq:
		c.Seq = max(c.Seq, 1) - 1 // a cursor lies before what comes next
	}
	after, err := r.needs.ReplayLogs.Resolve(ctx, sub.Namespace, c.String())
	return after + 1, err
}

// last returns the last sequence of a replay: it never goes beyond what is there now.
func (r *Registry) last(ctx context.Context, sub *sluice.Subscription, cursor string) (uint64, error) {
	now, err := r.needs.Logs.LastSeq(ctx, sub.Namespace)
	if err != nil || cursor == "" {
		return now, err
	}
	c, err := sluice.ParseCursor(cursor)
	switch {
	case err != nil:
		return 0, err
	case c.Kind == sluice.CursorEvent:
		ev, err := r.event(ctx, sub.Namespace, cursor)
		return ev.Seq, err
	case c.Kind == sluice.CursorSeq:
		return min(c.Seq, now), nil
	case c.Kind == sluice.CursorTime:
		c.Time = c.Time.Add(1)
	}
	after, err := r.needs.ReplayLogs.Resolve(ctx, sub.Namespace, c.String())
	return min(after, now), err
}
