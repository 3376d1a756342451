package later

import (
	"context"
	"log/slog"
	"time"

	"github.com/sluice-io/sluice/internal/instruct"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

const (
	fireLimit = 30 * time.Second // of all that one event needs when it is due; less than a claim lasts
	endLimit  = 5 * time.Second  // what is under way may still take when the server ends
)

// fire does with an event what is to be done now, and returns when to look again, the zero time for never.
func (e *Engine) fire(ctx context.Context, key string) time.Time {
	work, cancel := context.WithTimeout(context.WithoutCancel(ctx), fireLimit)
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(endLimit, cancel) })()
	namespace, id, err := streams.ParseScheduledKey(key)
	if err != nil {
		e.opts.Log.ErrorContext(ctx, "scheduled event has no key of ours", slog.String("key", key))
		return time.Time{}
	}
	for range 3 { // whoever was faster wrote what is read next
		s, err := e.needs.Records.Get(work, namespace, id)
		switch sluice.CodeOf(err) { //nolint:exhaustive // all others mean that it is not known
		case "":
		case sluice.NotFound:
			return time.Time{}
		default:
			return e.failed(ctx, &s, id, err, again(0))
		}
		next, err := e.step(work, &s)
		if err == nil {
			return next
		}
		if sluice.CodeOf(err) != sluice.Conflict {
			return e.failed(ctx, &s, id, err, again(tries(&s)))
		}
	}
	return e.needs.Now().Add(again(0))
}

func tries(s *sluice.Scheduled) int {
	if s.Claim == nil {
		return 0
	}
	return s.Claim.Tries
}

func (e *Engine) failed(ctx context.Context, s *sluice.Scheduled, id string, err error, wait time.Duration) time.Time {
	e.opts.Log.WarnContext(ctx, "scheduled event not stored yet", slog.String("namespace", s.Event.Namespace), slog.String("id", id),
		slog.Any("error", err), slog.Duration("again", wait))
	return e.needs.Now().Add(wait)
}

// step takes one event as far as it goes. Code Conflict if it was changed meanwhile.
func (e *Engine) step(ctx context.Context, s *sluice.Scheduled) (next time.Time, err error) {
	do, until := decide(s, moment{e.needs.Now(), e.needs.Replica, e.needs.Owner.Owns(lane(s))})
	switch do {
	case wait:
		return until, nil
	case finish:
		return time.Time{}, e.finish(ctx, s)
	case publish, resume:
	}
	was := s.Claim
	now := e.needs.Now().UTC()
	s.Claim = &sluice.Claim{By: e.needs.Replica, Since: now, At: now, Tries: 1}
	if was != nil {
		s.Claim.Since, s.Claim.Tries = was.Since, was.Tries+1
	}
	if s.Revision, err = e.needs.Records.Put(ctx, s); err != nil {
		return time.Time{}, err
	}
	return time.Time{}, e.publish(ctx, s, do == resume)
}

// publish publishes an event that is claimed, and removes it; what may not be published is told of.
func (e *Engine) publish(ctx context.Context, s *sluice.Scheduled, perhapsDone bool) error {
	done := false
	if perhapsDone {
		var err error
		if done, err = e.isStored(ctx, s); err != nil {
			return err
		}
	}
	if !done {
		_, err := e.needs.Perform.Perform(ctx, instruct.Firing{Creator: s.Creator, Event: s.Event, Paid: true})
		if err != nil {
			return e.giveUp(ctx, s, err)
		}
	}
	return e.needs.Records.Delete(ctx, s)
}

// isStored reports whether a try before this one has published the event, if the log might have forgotten its id.
func (e *Engine) isStored(ctx context.Context, s *sluice.Scheduled) (bool, error) {
	window, err := e.needs.Log.Window(ctx, s.Event.Namespace)
	if sluice.CodeOf(err) == sluice.NotFound {
		return false, nil // the log is gone; publishing says so
	}
	if err != nil || e.needs.Now().Add(fireLimit).Sub(s.Claim.Since) < window {
		return false, err
	}
	is, err := e.needs.Log.EventByID(ctx, s.Event.Namespace, s.Event.ID)
	if sluice.CodeOf(err) == sluice.NotFound {
		return false, nil
	}
	return err == nil && is.Path == s.Event.Path, err
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
