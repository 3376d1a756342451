package delayed

import (
	"context"
	"errors"
	"log/slog"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/schedule"
	"github.com/sluice-io/sluice/internal/schedule/action"
	"github.com/sluice-io/sluice/internal/schedule/timerqueue"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// kind defines scheduled events for the schedule engine.
type kind struct{ *Engine }

// Read returns an event's record. Code NotFound.
func (k kind) Read(ctx context.Context, key string) (model.Scheduled, error) {
	namespace, id, err := streams.ParseScheduledKey(key)
	if err != nil { // a retry would not help
		k.opts.Log.ErrorContext(ctx, "scheduled event has an invalid key", slog.String("key", key))
		return model.Scheduled{}, sluice.Errorf(sluice.NotFound, "%s", err)
	}
	return k.needs.Records.Get(ctx, namespace, id)
}

// Entry returns when to inspect an event. It also records that another replica works on the lane.
func (k kind) Entry(key string, s *model.Scheduled) timerqueue.Entry {
	on := lane(s)
	if s.Claim != nil && s.Claim.By != k.needs.Replica {
		k.seeOther(on)
	}
	one := timerqueue.Entry{Key: key, Lane: on, Group: s.Event.Namespace, At: s.DeliverAt, Order: s.Revision}
	switch {
	case s.Outcome != "": // the replica that ended it also finishes it, unless it died or the log refused the system event
		now := k.needs.Now()
		if one.At.After(now) {
			one.At = now
		}
		one.Next = now.Add(action.Backup)
	case s.Claim != nil && !k.due.Former(s.Claim):
		one.Next = k.due.Resume(s.Claim)
	}
	return one
}

// Mark returns an event's position in the list of waiting events.
func (kind) Mark(s *model.Scheduled) (schedule.Mark, bool) {
	m := schedule.Mark{At: s.DeliverAt, ID: s.Event.ID, Path: s.Event.Path, Label: s.Event.Extensions[sluice.AttributeClassification]}
	return m, s.Outcome == ""
}

// outline returns the parts of a marked event that decide which publishers may see it.
func outline(namespace string, m schedule.Mark) *sluice.Event {
	ev := &sluice.Event{Namespace: namespace, ID: m.ID, Path: m.Path}
	if m.Label != "" {
		ev.Extensions = map[string]string{sluice.AttributeClassification: m.Label}
	}
	return ev
}

// Tries returns the number of attempts to store an event.
func (kind) Tries(s *model.Scheduled) int {
	if s.Claim == nil {
		return 0
	}
	return s.Claim.Tries
}

// Step executes an event's next step.
func (k kind) Step(ctx context.Context, _ string, s *model.Scheduled) (next schedule.Next, err error) {
	do, until := decide(s, k.moment(lane(s)))
	switch do {
	case wait, hold:
		next.Again = timerqueue.Again{At: until, Hold: do == hold}
		return next, nil
	case finish:
		return next, k.end(ctx, s)
	case publish, resume:
	}
	was := s.Claim
	if was == nil || !was.Idle.IsZero() { // an interrupted attempt is ended also without room, so that the event can be cancelled
		if err := k.needs.Records.Room(); err != nil {
			return next, err
		}
	}
	firing := action.Firing{Creator: s.Creator, Event: s.Event, Paid: true, Since: schedule.Sent(was)}
	s.Claim = k.due.Claim(was)
	if s.Revision, err = k.needs.Records.Put(ctx, s); err != nil {
		s.Claim = was
		return next, err
	}
	return next, k.publish(ctx, s, firing)
}

// publish publishes a claimed event and removes its record. If publishing is refused, it announces
// that.
func (e *Engine) publish(ctx context.Context, s *model.Scheduled, firing action.Firing) error {
	stored, err := e.needs.Perform.Perform(ctx, firing)
	if err == nil && stored.Duplicate {
		s.Claim.Sent = true // if same cannot tell, the stored event may be this one
		err = e.same(ctx, s)
	}
	if err != nil {
		return e.giveUp(ctx, s, err)
	}
	e.due.Ended(s.Event.Namespace, schedule.Fired, s.DeliverAt)
	return e.needs.Records.Delete(ctx, s)
}

// rest records that no replica works on an event until the next attempt. Until then it can be
// cancelled.
func (e *Engine) rest(ctx context.Context, s *model.Scheduled, sent bool) (err error) {
	s.Claim = e.due.Rest(s.Claim, sent)
	s.Revision, err = e.needs.Records.Put(ctx, s)
	return err
}

// same returns an error (Conflict) if a publisher has used the event's id for another event
// meanwhile.
func (e *Engine) same(ctx context.Context, s *model.Scheduled) error {
	is, err := e.needs.Log.RecentByID(ctx, s.Event.Namespace, s.Event.ID)
	switch {
	case sluice.CodeOf(err) == sluice.NotFound:
		return nil // it can never be known
	case err != nil:
		return err
	case is.Extensions[sluice.AttributeDeliverAt] != s.Event.Extensions[sluice.AttributeDeliverAt]:
		return sluice.Errorf(sluice.Conflict, "the id %q was used in the meantime by a published event", s.Event.ID)
	}
	return nil
}

// giveUp ends an event that cannot be published, unless a later attempt may succeed.
func (e *Engine) giveUp(ctx context.Context, s *model.Scheduled, cause error) (err error) {
	if action.Passing(cause) {
		return errors.Join(cause, e.rest(ctx, s, action.Sent(cause)))
	}
	e.opts.Log.WarnContext(ctx, "scheduled event not published", slog.String("namespace", s.Event.Namespace), slog.String("id", s.Event.ID),
		slog.String("path", string(s.Event.Path)), slog.Any("error", cause))
	s.Outcome = model.DispatchOutcome(cause)
	if s.Revision, err = e.needs.Records.Put(ctx, s); err != nil {
		return err
	}
	e.due.Ended(s.Event.Namespace, schedule.Failed, s.DeliverAt)
	return e.end(ctx, s)
}

// end is finish without a request that waits for it.
func (e *Engine) end(ctx context.Context, s *model.Scheduled) error {
	return e.due.End(s.Event.Namespace, func() error { return e.finish(ctx, s) })
}
