package appointment

import (
	"time"

	"github.com/sluice-io/sluice/internal/schedule"
	"github.com/sluice-io/sluice/internal/schedule/action"
	"github.com/sluice-io/sluice/pkg/sluice"
)

const (
	punctual = 10 * time.Second // so late is in time: servers restart, and others step in
	shownFor = 24 * time.Hour   // how long one that has ended is kept
)

// step is what is to be done with an appointment.
type step int

const (
	rest   step = iota // until a time
	tell               // publish the system event that is in the record
	notice             // tell that it approaches
	fire               // do what its action says
	resume             // go on with that
	miss               // it does not fire any more
	remove             // nothing of it is left to do
)

// moment is who asks, and when.
type moment struct {
	now   time.Time
	me    string         // replica
	grace time.Duration  // how long to wait for whoever's turn it is; 0: it is ours
	doubt schedule.Doubt // when the clock could not be believed
}

// decision is what to do, until when to rest, and why it is missed.
type decision struct {
	do     step
	until  time.Time
	reason string
}

// decide returns what to do with an appointment.
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

// waiting decides on one that neither fires nor has ended. Those whose turn it is not wait a little longer.
func waiting(a *sluice.Appointment, m moment) decision {
	lead := a.Notice.Std()
	begin, approaches := a.At.Add(m.grace), a.At.Add(min(m.grace, lead/2)-lead) // half of what there is of it is still notice
	switch {
	case !m.now.Before(begin):
		if reason := missed(a, m.now); reason != "" {
			if m.doubt.Covers(a.At) {
				reason = sluice.MissedByClock
			}
			return decision{do: miss, reason: reason}
		}
		return decision{do: fire}
	case a.Noticed || !m.now.Before(a.At): // what is over does not approach, nor what needs no notice
		return decision{do: rest, until: begin}
	case m.now.Before(approaches):
		return decision{do: rest, until: approaches}
	}
	return decision{do: notice}
}

// missed returns why an appointment whose time has come does not fire any more, "" if it does.
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

// following returns when an appointment that repeats fires again, and false if it does not. What was missed in between is one time, not many: if
// it fired, it goes on at the first of its times that is still to come; if it was missed, at the first that is not.
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

// next returns the first time of an appointment behind its own and behind another one, and false if there is none.
func next(a *sluice.Appointment, behind time.Time) (time.Time, bool) {
	switch {
	case a.Cron != "":
		times, err := timesOf(a.Cron, a.TimeZone)
		if err != nil { // it was checked when it was set
			return time.Time{}, false
		}
		return times.after(later(a.At, behind))
	case a.Every <= 0:
		return time.Time{}, false
	}
	every := a.Every.Std()
	at := a.At.Add(every)
	for late := behind.Sub(at); late >= 0; late = behind.Sub(at) { // once, unless it is centuries, which no Duration can say
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
