package subscription

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/sluice-io/sluice/internal/ledger"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

const (
	maxReplays   = 8    // running at the same time, per subscription
	keptEnded    = 100  // ended replays that are kept, per subscription
	maxReplayIDs = 1000 // events that a replay names; its record has them, and each event is compared with all
)

// Replays stores the records of replays.
type Replays interface {
	// Add stores a new replay.
	Add(ctx context.Context, rep sluice.Replay) error
	// Replay returns the stored replay with the ID and subscription of rep. Code NotFound.
	Replay(ctx context.Context, rep sluice.Replay) (sluice.Replay, error)
	// Of returns the replays of a subscription, newest first.
	Of(ctx context.Context, subscription string) ([]sluice.Replay, error)
	// Drop deletes a replay's record.
	Drop(ctx context.Context, rep sluice.Replay) error
	// Remove deletes all replays of a subscription.
	Remove(ctx context.Context, subscription string) error
	// Progress changes a stored replay. A replay that has ended keeps its state.
	Progress(ctx context.Context, rep sluice.Replay, change func(*sluice.Replay)) error
}

// ReplayLogs reads the events of a replay.
type ReplayLogs interface {
	// Resolve returns the sequence before the first event after a cursor. Codes NotFound;
	// WindowExceeded.
	Resolve(ctx context.Context, namespace, cursor string) (uint64, error)
	// ReadLane returns up to limit events of a path, or of the subscription's pattern if the path
	// is empty, from a sequence on, and the first sequence that the log holds.
	ReadLane(ctx context.Context, sub *sluice.Subscription, path sluice.Path, from uint64, limit int) ([]model.ReadEvent, uint64, error)
}

// ReplayRequest selects the events to replay. From and To are each a sequence, an event ID or a
// time, and inclusive. An empty From is the oldest stored event, an empty To the newest.
type ReplayRequest struct {
	From     string
	To       string
	Types    []string // patterns of types; empty: all
	EventIDs []string // empty: all
	Rate     sluice.Rate
}

// Replay starts a replay of past events and returns it. Codes: SubscriptionMissing; Conflict if the
// subscription is cancelled; QuotaExceeded if too many of its replays are running; InvalidRequest;
// NotFound for a missing event; WindowExceeded for an event that is no longer stored.
func (r *Registry) Replay(ctx context.Context, id string, req ReplayRequest, by string) (sluice.Replay, error) {
	sub, rep, err := r.plan(ctx, id, req)
	if err != nil {
		return rep, err
	}
	rep.CreatedBy = by
	return r.Start(ctx, sub, rep)
}

// Start starts a replay. The caller sets Kind, From, To, Types, EventIDs, Rate, Total and CreatedBy
// of rep; Start sets the other fields. A replay that is an operator's act does not count towards
// the limit; if the same act is still running, Start returns that. Codes: Conflict; QuotaExceeded.
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
		return rep, sluice.Errorf(sluice.QuotaExceeded, "%d replays of %q are running, the limit; wait for one to end, or cancel it", running, sub.ID)
	}
	id, err := uuid.NewV7()
	if err != nil {
		return rep, fmt.Errorf("generate an ID: %w", err)
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

// tidy deletes the records of old replays, and returns the number of running ones, not counting
// acts. The replays are ordered newest first.
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

// sameAct reports whether rep is running and is the same act as other.
func sameAct(rep, other *sluice.Replay, sub *sluice.Subscription) bool {
	return rep.State == sluice.ReplayRunning && rep.Kind == other.Kind && rep.From == other.From && rep.Began.Equal(sub.Began())
}

// actionOf returns the ledger action for the start of a replay.
func actionOf(kind sluice.ReplayKind) string {
	switch kind {
	case sluice.ReplayRetry, sluice.ReplayLanes:
		return sluice.ActionDeliveryRetry
	case sluice.ReplayProbe, sluice.ReplayProved:
		return sluice.ActionSubscriptionProbe
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

// CancelReplay cancels a replay and returns it. Deliveries in flight complete. It does not change a
// replay that has ended. Codes: SubscriptionMissing; NotFound.
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

// plan resolves a request into a replay that is not stored yet.
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
		return nil, rep, sluice.Errorf(sluice.InvalidRequest, "from %q is at sequence %d, after the last event at %d: nothing to replay", req.From, rep.From, rep.To).With("field", "from")
	}
	return sub, rep, nil
}

// check returns an error (InvalidRequest) if the request is invalid for every log.
func (req *ReplayRequest) check() error {
	if err := CheckReplayRate(req.Rate); err != nil {
		return err
	}
	if len(req.EventIDs) > maxReplayIDs {
		return sluice.Errorf(sluice.InvalidRequest, "event_ids: use at most %d, not %d", maxReplayIDs, len(req.EventIDs)).With("field", "event_ids")
	}
	for _, id := range req.EventIDs {
		if err := sluice.CheckEventID(id); err != nil {
			return sluice.Errorf(sluice.InvalidRequest, "event_ids: %v", err).With("field", "event_ids")
		}
	}
	return sluice.CheckTypePatterns("types", req.Types)
}

// CheckReplayRate returns an error (InvalidRequest) unless a replay can have the rate. The zero rate
// is that of the subscription.
func CheckReplayRate(r sluice.Rate) error {
	switch {
	case r.PerSecond < 0:
		return sluice.Errorf(sluice.InvalidRequest, "rate.per_second %g: use a number above 0, or omit it", r.PerSecond).With("field", "rate.per_second")
	case r.PerMinute < 0:
		return sluice.Errorf(sluice.InvalidRequest, "rate.per_minute %g: use a number above 0, or omit it", r.PerMinute).With("field", "rate.per_minute")
	case r.Key != "":
		return sluice.Errorf(sluice.InvalidRequest, "rate.key is of a subscription's policy; a replay without a rate shares that of its subscription").With("field", "rate.key")
	}
	return nil
}

// notThere turns the error for a missing event into one that names the valid forms of a position.
func notThere(err error, sub *sluice.Subscription, field, place string) error {
	if sluice.CodeOf(err) != sluice.NotFound {
		return err
	}
	return sluice.Errorf(sluice.NotFound, "%s %q: not the ID of an event in %s, nor a sequence, nor an RFC 3339 time such as 2026-01-31T00:00:00Z",
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
		c.Seq = max(c.Seq, 1) - 1 // a cursor is before the first event
	}
	after, err := r.needs.ReplayLogs.Resolve(ctx, sub.Namespace, c.String())
	return after + 1, err
}

// last returns the last sequence of a replay, at most that of the newest event.
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
