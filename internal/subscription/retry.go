package subscription

import (
	"context"
	"slices"
	"strconv"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Lanes reads the outcomes of deliveries.
type Lanes interface {
	// ParkedLanes returns the parked lanes of a subscription.
	ParkedLanes(ctx context.Context, sub *sluice.Subscription) ([]sluice.Parked, error)
	// DeadLetter returns the dead letter of an event. Code NotFound.
	DeadLetter(ctx context.Context, sub *sluice.Subscription, event string) (model.BuriedLetter, error)
	// Health returns the stored health of a subscription; zero: its endpoint is not in trouble.
	Health(ctx context.Context, sub *sluice.Subscription) (model.Health, error)
	// LastAttempt returns the last recorded attempt of a subscription; nil if there is none.
	LastAttempt(ctx context.Context, sub *sluice.Subscription) (*sluice.Attempt, error)
	// Trail returns what the store knows of the delivery of an event. Code NotFound.
	Trail(ctx context.Context, sub *sluice.Subscription, event string) (model.Trail, error)
}

// Retrier executes operators' acts on deliveries: retries, discards and probes.
type Retrier struct {
	Lanes    Lanes
	Registry *Registry
}

// Retry starts a replay of one event, given by its ID or sequence. If the event holds its lane, the
// replay releases the lane; if the event has a dead letter, the replay redrives that. Codes as for
// Registry.Replay; Conflict for an event that does not match the subscription.
func (r Retrier) Retry(ctx context.Context, sub *sluice.Subscription, event, by string) (sluice.Replay, error) {
	lane, err := r.held(ctx, sub, event)
	if err != nil {
		return sluice.Replay{}, err
	}
	if lane != nil {
		return r.act(ctx, sub, sluice.ReplayRetry, lane, by)
	}
	d, err := r.Lanes.DeadLetter(ctx, sub, event)
	switch {
	case err == nil && d.Redrivable():
		return r.Registry.Start(ctx, sub, sluice.Replay{
			Kind: sluice.ReplayDeadLetters, From: d.LetterSeq, To: d.LetterSeq, EventIDs: []string{d.EventID}, Total: 1, CreatedBy: by,
		})
	case err != nil && sluice.CodeOf(err) != sluice.NotFound:
		return sluice.Replay{}, err
	}
	only := ReplayRequest{From: event, To: event}
	count, err := r.Registry.Count(ctx, sub.ID, only)
	if sluice.CodeOf(err) == sluice.NotFound {
		return sluice.Replay{}, sluice.Errorf(sluice.NotFound, "event %q not found in %s", event, sub.Namespace)
	}
	if err != nil {
		return sluice.Replay{}, err
	}
	if count.Exact && count.Count == 0 {
		return sluice.Replay{}, sluice.Errorf(sluice.Conflict, "event %q cannot be sent: it does not match the pattern or the filter of %q, or cannot be read", event, sub.ID)
	}
	return r.Registry.Replay(ctx, sub.ID, only, by)
}

// Discard discards the head of a held lane, given by its ID or sequence. Codes Conflict; NotFound.
func (r Retrier) Discard(ctx context.Context, sub *sluice.Subscription, event, by string) (sluice.Replay, error) {
	lane, err := r.held(ctx, sub, event)
	if err != nil {
		return sluice.Replay{}, err
	}
	if lane != nil {
		return r.act(ctx, sub, sluice.ReplayDiscard, lane, by)
	}
	if _, err := r.Lanes.Trail(ctx, sub, event); err != nil {
		return sluice.Replay{}, err
	}
	return sluice.Replay{}, sluice.Errorf(sluice.Conflict, "event %q holds no lane of %q: only held events can be discarded; discard dead letters under dead-letters", event, sub.ID)
}

// Probe makes the next probe of an open breaker due immediately. Code Conflict unless the
// subscription is active.
func (r Retrier) Probe(ctx context.Context, sub *sluice.Subscription, by string) (sluice.Replay, error) {
	return r.actOnAll(ctx, sub, sluice.ReplayProbe, by)
}

// RetryLanes makes all parked lanes due immediately, and releases those that are held; an open
// breaker probes. Code Conflict unless the subscription is active.
func (r Retrier) RetryLanes(ctx context.Context, sub *sluice.Subscription, by string) (sluice.Replay, error) {
	return r.actOnAll(ctx, sub, sluice.ReplayLanes, by)
}

// Proved makes a subscription in trouble count a successful test as a probe: it ends continuous
// failure, and an open breaker becomes half-open. A failure that is too young for the stored health
// shows in the last attempt.
func (r Retrier) Proved(ctx context.Context, sub *sluice.Subscription, by string) error {
	if sub.State != sluice.Active {
		return nil
	}
	h, err := r.Lanes.Health(ctx, sub)
	if err != nil {
		return err
	}
	last, err := r.Lanes.LastAttempt(ctx, sub)
	if err != nil {
		return err
	}
	failed := last != nil && last.Outcome != sluice.Delivered
	if failed || h.Breaker == sluice.BreakerOpen || !h.FailingSince.IsZero() {
		_, err = r.actOnAll(ctx, sub, sluice.ReplayProved, by)
	}
	return err
}

func (r Retrier) actOnAll(ctx context.Context, sub *sluice.Subscription, kind sluice.ReplayKind, by string) (sluice.Replay, error) {
	if sub.State != sluice.Active {
		return sluice.Replay{}, sluice.Errorf(sluice.Conflict, "subscription %q is %s: resume it first", sub.ID, sub.State)
	}
	return r.Registry.Start(ctx, sub, sluice.Replay{Kind: kind, CreatedBy: by})
}

// held returns the lane that the event holds, nil if it holds none.
func (r Retrier) held(ctx context.Context, sub *sluice.Subscription, event string) (*sluice.Parked, error) {
	lanes, err := r.Lanes.ParkedLanes(ctx, sub)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(lanes, func(p sluice.Parked) bool {
		return p.Held != "" && (p.EventID == event || strconv.FormatUint(p.FromSeq, 10) == event)
	})
	if i < 0 {
		return nil, nil //nolint:nilnil // most events hold none
	}
	return &lanes[i], nil
}

func (r Retrier) act(ctx context.Context, sub *sluice.Subscription, kind sluice.ReplayKind, lane *sluice.Parked, by string) (sluice.Replay, error) {
	return r.Registry.Start(ctx, sub, sluice.Replay{
		Kind: kind, From: lane.FromSeq, To: lane.FromSeq, EventIDs: []string{lane.EventID}, Total: 1, CreatedBy: by,
	})
}
