package appoint

import (
	"context"
	"crypto/rand"
	"log/slog"
	"strings"
	"time"

	"github.com/sluice-io/sluice/internal/instruct"
	"github.com/sluice-io/sluice/internal/timers"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// endLimit is what is under way may still take when the server ends.
const endLimit = 5 * time.Second

// maxSteps is more than one appointment takes at one time: told of, noticed, told of, fired, told of, and again after a race.
const maxSteps = 12

// call does what is to be done, and says when again.
func (e *Engine) call(ctx context.Context, key string) timers.Again {
	return timers.Again{At: e.fire(ctx, key)}
}

// fire does with an appointment all that is to be done now, and returns when to look again, the zero time for never.
func (e *Engine) fire(ctx context.Context, key string) time.Time {
	work, cancel := context.WithTimeout(context.WithoutCancel(ctx), instruct.MaxTime)
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(endLimit, cancel) })()
	namespace, id, _ := strings.Cut(key, "/")
	for range maxSteps {
		a, err := e.needs.Records.Get(work, namespace, id)
		if sluice.CodeOf(err) == sluice.NotFound {
			return time.Time{}
		}
		if err == nil && a.Work == nil {
			e.opts.Log.ErrorContext(ctx, "appointment cannot be read: another version wrote it", slog.String("namespace", namespace), slog.String("id", id))
			return time.Time{}
		}
		var d decision
		if err == nil {
			d = decide(&a, e.moment(key))
			err = e.do(work, &a, d)
		}
		switch {
		case err == nil && d.do == rest:
			return d.until
		case err == nil && d.do == remove:
			return time.Time{}
		case err == nil, sluice.CodeOf(err) == sluice.Conflict: // whoever was faster wrote what is read next
			continue
		}
		wait := instruct.Again(tries(&a))
		e.opts.Log.WarnContext(ctx, "appointment not kept yet", slog.String("namespace", namespace), slog.String("id", id), slog.Any("error", err), slog.Duration("again", wait))
		return e.needs.Now().Add(wait)
	}
	return e.needs.Now().Add(instruct.Again(0))
}

// moment returns who decides on an appointment, and when.
func (e *Engine) moment(key string) moment {
	m := moment{now: e.needs.Now(), me: e.needs.Replica}
	if !e.needs.Owner.Owns(key) {
		m.grace = instruct.BackupOf(e.needs.Replica, key)
	}
	return m
}

func tries(a *sluice.Appointment) int {
	if a.Work == nil || a.Work.Claim == nil {
		return 0
	}
	return a.Work.Claim.Tries
}

// do takes an appointment one step further. Code Conflict if it was changed meanwhile.
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
	return e.keep(ctx, a, sluice.TypeAppointmentMissed, missedData{about(a), end.ScheduledFor.UnixMilli(), end.Reason})
}

// resume goes on with what was begun. If that is too late by now, it looks whether it was done.
func (e *Engine) resume(ctx context.Context, a *sluice.Appointment) error {
	reason := missed(a, e.needs.Now())
	if reason == "" {
		return e.perform(ctx, a)
	}
	event := event(a)
	stored, err := e.needs.Perform.Find(ctx, &event)
	switch {
	case err != nil:
		return err
	case stored.Seq == 0:
		return e.miss(ctx, a, reason)
	}
	return e.ended(ctx, a, stored, nil)
}

// event returns the event of an appointment's action at its time.
func event(a *sluice.Appointment) sluice.Event {
	return a.Action.Event(a.Namespace, a.Work.Event)
}

// eventID returns the id of the event of a firing that is to come.
func eventID() string { return "appointment-" + rand.Text() }

// perform claims an appointment, does what its action says, and stores how that went. While it cannot be done at the moment, and the policy has the appointment
// still fire later, the error says so.
func (e *Engine) perform(ctx context.Context, a *sluice.Appointment) (err error) {
	now := e.needs.Now().UTC()
	firing := instruct.Firing{Creator: a.Creator, Event: event(a)}
	claim := sluice.Claim{By: e.needs.Replica, Since: now, At: now, Tries: tries(a) + 1}
	if was := a.Work.Claim; was != nil {
		claim.Since, firing.Since = was.Since, was.Since
	}
	work := *a.Work
	work.Claim = &claim
	a.State, a.Work = sluice.AppointmentFiring, &work
	if a.Revision, err = e.needs.Records.Put(ctx, a); err != nil {
		return err
	}
	stored, cause := e.needs.Perform.Perform(ctx, firing)
	if cause != nil && instruct.Passing(cause) && missed(a, e.needs.Now().Add(instruct.Again(claim.Tries))) == "" {
		return cause
	}
	return e.ended(ctx, a, stored, cause)
}

// ended stores how doing what an action says has ended.
func (e *Engine) ended(ctx context.Context, a *sluice.Appointment, stored sluice.Stored, cause error) error {
	now := e.needs.Now().UTC()
	end := sluice.AppointmentEnd{
		State: sluice.AppointmentFired, ScheduledFor: a.At, At: now, Outcome: sluice.DispatchOutcome(cause), EventID: event(a).ID, Seq: stored.Seq,
	}
	over(a, end, now)
	return e.keep(ctx, a, sluice.TypeAppointmentFired, firedData{about(a), end.ScheduledFor.UnixMilli(), now.UnixMilli(), end.Outcome, end.EventID})
}

// over ends an appointment, or has one that repeats wait for the next time.
func over(a *sluice.Appointment, end sluice.AppointmentEnd, now time.Time) {
	work := *a.Work
	work.Claim = nil
	a.Work, a.Last, a.State = &work, &end, end.State
	if a.Every > 0 {
		a.State, a.Noticed, a.At = sluice.AppointmentWaiting, false, next(a, now)
		work.Event = eventID()
	}
}
