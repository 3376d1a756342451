package later

import (
	"context"
	"log/slog"
	"time"

	"github.com/sluice-io/sluice/internal/instruct"
	"github.com/sluice-io/sluice/internal/timers"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// endLimit is what is under way may still take when the server ends.
const endLimit = 5 * time.Second

// fire does with an event what is to be done now, and returns when to look again.
func (e *Engine) fire(ctx context.Context, key string) timers.Again {
	work, cancel := context.WithTimeout(context.WithoutCancel(ctx), instruct.MaxTime)
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(endLimit, cancel) })()
	namespace, id, err := streams.ParseScheduledKey(key)
	if err != nil {
		e.opts.Log.ErrorContext(ctx, "scheduled event has no key of ours", slog.String("key", key))
		return timers.Again{}
	}
	for range 3 { // whoever was faster wrote what is read next
		s, err := e.needs.Records.Get(work, namespace, id)
		switch sluice.CodeOf(err) { //nolint:exhaustive // all others mean that it is not known
		case "":
		case sluice.NotFound:
			return timers.Again{}
		default:
			return e.failed(ctx, &s, id, err, instruct.Again(0))
		}
		next, err := e.step(work, &s)
		if err == nil {
			return next
		}
		if sluice.CodeOf(err) != sluice.Conflict {
			return e.failed(ctx, &s, id, err, instruct.Again(tries(&s)))
		}
	}
	return timers.Again{At: e.needs.Now().Add(instruct.Again(0))}
}

func tries(s *sluice.Scheduled) int {
	if s.Claim == nil {
		return 0
	}
	return s.Claim.Tries
}

func (e *Engine) failed(ctx context.Context, s *sluice.Scheduled, id string, err error, wait time.Duration) timers.Again {
	e.opts.Log.WarnContext(ctx, "scheduled event not stored yet", slog.String("namespace", s.Event.Namespace), slog.String("id", id),
		slog.Any("error", err), slog.Duration("again", wait))
	return timers.Again{At: e.needs.Now().Add(wait)}
}

// step takes one event as far as it goes. Code Conflict if it was changed meanwhile.
func (e *Engine) step(ctx context.Context, s *sluice.Scheduled) (next timers.Again, err error) {
	do, until := decide(s, e.moment(lane(s)))
	switch do {
	case wait, hold:
		return timers.Again{At: until, Hold: do == hold}, nil
	case finish:
		return next, e.finish(ctx, s)
	case publish, resume:
	}
	now := e.needs.Now().UTC()
	firing := instruct.Firing{Creator: s.Creator, Event: s.Event, Paid: true}
	claim := sluice.Claim{By: e.needs.Replica, Since: now, At: now, Tries: tries(s) + 1}
	if was := s.Claim; was != nil {
		claim.Since, firing.Since = was.Since, was.Since
	}
	s.Claim = &claim
	if s.Revision, err = e.needs.Records.Put(ctx, s); err != nil {
		return next, err
	}
	return next, e.publish(ctx, s, firing)
}

// publish publishes an event that is claimed, and removes it; what may not be published is told of.
func (e *Engine) publish(ctx context.Context, s *sluice.Scheduled, firing instruct.Firing) error {
	if _, err := e.needs.Perform.Perform(ctx, firing); err != nil {
		return e.giveUp(ctx, s, err)
	}
	return e.needs.Records.Delete(ctx, s)
}

// giveUp ends an event that cannot be published, unless it can be later.
func (e *Engine) giveUp(ctx context.Context, s *sluice.Scheduled, cause error) (err error) {
	if instruct.Passing(cause) {
		return cause
	}
	e.opts.Log.WarnContext(ctx, "scheduled event not published", slog.String("namespace", s.Event.Namespace), slog.String("id", s.Event.ID),
		slog.String("path", string(s.Event.Path)), slog.Any("error", cause))
	s.Outcome = sluice.DispatchOutcome(cause)
	if s.Revision, err = e.needs.Records.Put(ctx, s); err != nil {
		return err
	}
	return e.finish(ctx, s)
}
