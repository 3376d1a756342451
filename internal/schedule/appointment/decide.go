package appointment

import (
	"time"

	"github.com/sluice-io/sluice/internal/schedule"
	"github.com/sluice-io/sluice/internal/schedule/action"
	"github.com/sluice-io/sluice/pkg/sluice"
)

const (
	punctual = 10 * time.Second // a delay that counts as in time: a restart or takeover causes one
	shownFor = 24 * time.Hour   // how long an ended appointment is kept
)

// step is the next step of an appointment.
type step int

const (
	rest   step = iota // do nothing until a time
	tell               // publish the system event in the record
	notice             // announce that the appointment approaches
	fire               // perform its action
	resume             // continue an action that was begun
	miss               // record that the appointment does not fire any more
	remove             // delete the record
)

// moment is the context of a decision: the replica, the time and the state of its clock.
type moment struct {
	now   time.Time
	me    string         // replica
	grace time.Duration  // how long to wait for the responsible replica; 0: this one is
	doubt schedule.Doubt // when the clock was not trusted
}

// decision is a step, with the end of a rest or the reason of a miss.
type decision struct {
	do     step
	until  time.Time
	reason string
}

// decide returns the next step of an appointment.
func decide(a *sluice.Appointment, m moment) decision {
	if a.Work.Untold != nil {
		return decision{do: tell}
	}
	switch a.State {
	case sluice.AppointmentWaiting:
		return waiting(a, m)
	case sluice.AppointmentFiring:
		until := a.Work.Claim.At.Add(action.ClaimFor)
		if a.Work.Claim.By != m.me && m.now.Before(until) {
			return decision{do: rest, until: until}
		}
		return decision{do: resume}
	case sluice.AppointmentFired, sluice.AppointmentMissed:
		if until := a.Last.At.Add(shownFor); m.now.Before(until) {
			return decision{do: rest, until: until}
		}
	case sluice.AppointmentCancelled:
	}
	return decision{do: remove}
}

// waiting decides about an appointment that neither fires nor has ended. Replicas that are not
// responsible wait a little longer.
func waiting(a *sluice.Appointment, m moment) decision {
	lead := a.Notice.Std()
	begin, approaches := a.At.Add(m.grace), a.At.Add(min(m.grace, lead/2)-lead) // at least half of the notice time remains
	switch {
	case !m.now.Before(begin):
		if reason := missed(a, m.now); reason != "" {
			if m.doubt.Covers(a.At) {
				reason = sluice.MissedByClock
			}
			return decision{do: miss, reason: reason}
		}
		return decision{do: fire}
	case a.Noticed || !m.now.Before(a.At): // an appointment in the past needs no notice
		return decision{do: rest, until: begin}
	case m.now.Before(approaches):
		return decision{do: rest, until: approaches}
	}
	return decision{do: notice}
}

// missed returns why a due appointment does not fire any more, "" if it does.
func missed(a *sluice.Appointment, now time.Time) string {
	late := now.Sub(a.At)
	switch {
	case late <= punctual:
		return ""
	case a.MissPolicy == sluice.MissDrop:
		return sluice.MissedByPolicy
	case a.MissPolicy == sluice.MissCatchUpWithin && late > a.Grace.Std():
		return sluice.MissedByGrace
	}
	return ""
}

// following returns when a repeating appointment fires again, and false if it does not. It skips
// all missed times at once. An appointment that fired continues at its first time after now; one
// that was missed continues at its first time that is not missed yet.
func following(a *sluice.Appointment, end sluice.AppointmentState, now time.Time) (time.Time, bool) {
	behind := now
	if end == sluice.AppointmentMissed {
		late := punctual
		if a.MissPolicy == sluice.MissCatchUpWithin {
			late = max(late, a.Grace.Std())
		}
		behind = later(a.At, now.Add(-late-1))
	}
	return next(a, behind)
}

// next returns an appointment's first time after its own and after behind, and false if there is
// none.
func next(a *sluice.Appointment, behind time.Time) (time.Time, bool) {
	switch {
	case a.Cron != "":
		times, err := timesOf(a.Cron, a.TimeZone)
		if err != nil { // Set has checked it
			return time.Time{}, false
		}
		return times.after(later(a.At, behind))
	case a.Every <= 0:
		return time.Time{}, false
	}
	every := a.Every.Std()
	at := a.At.Add(every)
	for late := behind.Sub(at); late >= 0; late = behind.Sub(at) { // one iteration, unless the gap is centuries and exceeds a Duration
		at = at.Add(late - late%every).Add(every)
	}
	return at, true
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
