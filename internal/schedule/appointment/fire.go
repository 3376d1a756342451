package appointment

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/schedule"
	"github.com/sluice-io/sluice/internal/schedule/action"
	"github.com/sluice-io/sluice/internal/schedule/timerqueue"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// kind defines appointments for the schedule engine.
type kind struct{ *Engine }

// Read returns an appointment's record. Code NotFound.
func (k kind) Read(ctx context.Context, key string) (sluice.Appointment, error) {
	namespace, id, _ := strings.Cut(key, "/")
	return k.needs.Records.Get(ctx, namespace, id)
}

// Entry returns when to inspect an appointment. If a record has a pending step, the replica that
// stored it executes the step, so others look only later, in case that replica died.
func (k kind) Entry(key string, a *sluice.Appointment) timerqueue.Entry {
	return timerqueue.Entry{Key: key, Lane: key, Group: a.Namespace, At: k.look(a), Order: a.Revision}
}

func (k kind) look(a *sluice.Appointment) time.Time {
	now := k.needs.Now()
	switch {
	case a.Work == nil:
		return now
	case a.Work.Untold != nil:
		return now.Add(action.Backup)
	case a.Work.Claim != nil && !k.due.Former(a.Work.Claim):
		return k.due.Resume(a.Work.Claim)
	}
	if d := decide(a, moment{now: now, me: k.needs.Replica}); d.do == rest {
		return d.until
	}
	return now
}

// Mark returns an appointment's position in the list.
func (kind) Mark(a *sluice.Appointment) (schedule.Mark, bool) {
	return schedule.Mark{At: a.At, ID: a.ID, Path: a.Action.Path, Over: isOver(a)}, a.State != sluice.AppointmentCancelled
}

// isOver reports whether an appointment never fires again.
func isOver(a *sluice.Appointment) bool {
	return a.State == sluice.AppointmentFired || a.State == sluice.AppointmentMissed || a.State == sluice.AppointmentCancelled
}

// Tries returns the number of attempts at an appointment's action.
func (kind) Tries(a *sluice.Appointment) int {
	if a.Work == nil || a.Work.Claim == nil {
		return 0
	}
	return a.Work.Claim.Tries
}

// Step executes an appointment's next step.
func (k kind) Step(ctx context.Context, key string, a *sluice.Appointment) (next schedule.Next, err error) {
	if a.Work == nil {
		k.opts.Log.ErrorContext(ctx, "appointment cannot be read: another version wrote it", slog.String("key", key))
		return next, nil
	}
	d := decide(a, moment{now: k.needs.Now(), me: k.needs.Replica, grace: k.due.Grace(key), doubt: k.due.Doubt()})
	if d.do == rest {
		next.At = d.until
		return next, nil
	}
	next.More = d.do != remove
	if d.do == tell && isOver(a) {
		return next, k.due.End(a.Namespace, func() error { return k.tell(ctx, a) })
	}
	return next, k.do(ctx, a, d)
}

// do executes an appointment's next step. Code Conflict after a concurrent change.
func (e *Engine) do(ctx context.Context, a *sluice.Appointment, d decision) error {
	now := e.needs.Now()
	switch d.do {
	case rest:
	case tell:
		return e.tell(ctx, a)
	case notice:
		a.Noticed = true
		return e.keep(ctx, a, sluice.TypeAppointmentApproaching, approachingData{about(a), a.At.UnixMilli(), a.At.Sub(now).Milliseconds()})
	case miss:
		return e.miss(ctx, a, d.reason)
	case fire:
		return e.perform(ctx, a)
	case resume:
		return e.resume(ctx, a)
	case remove:
		return e.remove(ctx, a)
	}
	return nil
}

func (e *Engine) miss(ctx context.Context, a *sluice.Appointment, reason string) error {
	now := e.needs.Now().UTC()
	end := sluice.AppointmentEnd{State: sluice.AppointmentMissed, ScheduledFor: a.At, At: now, Reason: reason}
	over(a, end, now)
	err := e.keep(ctx, a, sluice.TypeAppointmentMissed, missedData{about(a), end.ScheduledFor.UnixMilli(), end.Reason})
	if err == nil {
		e.due.Ended(a.Namespace, schedule.Missed, end.ScheduledFor)
	}
	return err
}

// resume continues a firing. If it has become too late to fire, it checks whether the action was
// done.
func (e *Engine) resume(ctx context.Context, a *sluice.Appointment) error {
	reason := missed(a, e.needs.Now())
	if reason == "" {
		return e.perform(ctx, a)
	}
	since := schedule.Sent(a.Work.Claim)
	if since.IsZero() {
		return e.miss(ctx, a, reason)
	}
	event := event(a)
	stored, err := e.needs.Perform.Find(ctx, &event, since)
	switch {
	case err != nil:
		return err
	case stored.Seq == 0:
		return e.miss(ctx, a, reason)
	}
	return e.ended(ctx, a, stored, nil)
}

// event returns the event of an appointment's next firing.
func event(a *sluice.Appointment) sluice.Event {
	return a.Action.Event(a.Namespace, a.Work.Event)
}

// eventID returns the id of a future firing's event.
func eventID() string { return "appointment-" + rand.Text() }

// perform claims an appointment, performs its action, and stores the outcome. It returns an error
// if a retry of the action may succeed while the policy still lets the appointment fire.
func (e *Engine) perform(ctx context.Context, a *sluice.Appointment) (err error) {
	was := a.Work
	firing := action.Firing{Creator: a.Creator, Event: event(a), Since: schedule.Sent(was.Claim)}
	work := *was
	work.Claim = e.due.Claim(was.Claim)
	a.State, a.Work = sluice.AppointmentFiring, &work
	if a.Revision, err = e.needs.Records.Put(ctx, a); err != nil {
		a.Work = was
		return err
	}
	stored, cause := e.needs.Perform.Perform(ctx, firing)
	if cause != nil && action.Passing(cause) && missed(a, e.needs.Now().Add(action.Again(work.Claim.Tries))) == "" {
		return errors.Join(cause, e.rest(ctx, a, action.Sent(cause)))
	}
	return e.ended(ctx, a, stored, cause)
}

// rest records that no replica works on an appointment until the next attempt. Until then it can be
// cancelled.
func (e *Engine) rest(ctx context.Context, a *sluice.Appointment, sent bool) (err error) {
	work := *a.Work
	work.Claim = e.due.Rest(work.Claim, sent)
	a.Work = &work
	a.Revision, err = e.needs.Records.Put(ctx, a)
	return err
}

// ended stores the outcome of an action.
func (e *Engine) ended(ctx context.Context, a *sluice.Appointment, stored sluice.Stored, cause error) error {
	now := e.needs.Now().UTC()
	end := sluice.AppointmentEnd{
		State: sluice.AppointmentFired, ScheduledFor: a.At, At: now, Outcome: model.DispatchOutcome(cause), EventID: event(a).ID, Seq: stored.Seq,
	}
	over(a, end, now)
	err := e.keep(ctx, a, sluice.TypeAppointmentFired, firedData{about(a), end.ScheduledFor.UnixMilli(), now.UnixMilli(), end.Outcome, end.EventID})
	switch {
	case err != nil:
		return err
	case cause != nil:
		e.opts.Log.WarnContext(ctx, "action of an appointment not published", slog.String("namespace", a.Namespace), slog.String("id", a.ID), slog.Any("error", cause))
		e.due.Ended(a.Namespace, schedule.Failed, end.ScheduledFor)
	default:
		e.due.Ended(a.Namespace, schedule.Fired, end.ScheduledFor)
	}
	return nil
}

// over ends an appointment, or schedules the next time of a repeating one.
func over(a *sluice.Appointment, end sluice.AppointmentEnd, now time.Time) {
	work := *a.Work
	work.Claim = nil
	a.Work, a.Last, a.State = &work, &end, end.State
	if at, ok := following(a, end.State, now); ok {
		a.State, a.Noticed, a.At = sluice.AppointmentWaiting, false, at.UTC()
		work.Event = eventID()
	}
}
