package sluice

import (
	"cmp"
	"encoding/json"
	"time"
)

// MissPolicy says what becomes of an appointment at whose time no server was there.
type MissPolicy string

// The policies.
const (
	MissDrop          MissPolicy = "drop"            // it is missed
	MissCatchUpWithin MissPolicy = "catch_up_within" // it fires if no more than the grace has passed, else it is missed
	MissCatchUp       MissPolicy = "catch_up"        // it fires, however late
)

// AppointmentState is where an appointment is in its life.
type AppointmentState string

// The states. What has fired, or was missed, is shown for a day; what was cancelled is gone.
const (
	AppointmentWaiting   AppointmentState = "waiting"
	AppointmentFiring    AppointmentState = "firing" // its action is being done: it is too late to cancel it
	AppointmentFired     AppointmentState = "fired"
	AppointmentMissed    AppointmentState = "missed"
	AppointmentCancelled AppointmentState = "cancelled"
)

// Why an appointment is missed.
const (
	MissedByPolicy = "miss_policy"     // it is dropped when nobody is there
	MissedByGrace  = "grace_exceeded"  // nobody was there for longer than the grace
	MissedByClock  = "clock_untrusted" // at its time the clock was set, and could not be believed
)

// Appointment is an instruction that fires at a time (S2-37).
type Appointment struct {
	Creator

	ID         string     `json:"id"`
	Namespace  string     `json:"namespace"`
	At         time.Time  `json:"at"`                  // of one that repeats, the next
	Every      Duration   `json:"every,omitempty"`     // after which it fires again; 0: it does not, unless Cron says so
	Cron       string     `json:"cron,omitempty"`      // when it fires again and again, in the five fields of cron(8), in place of a first time and Every
	TimeZone   string     `json:"time_zone,omitempty"` // in which Cron is read, by its IANA name; "": UTC
	Notice     Duration   `json:"notice"`              // how long before it is told that it approaches; 0: it is not
	MissPolicy MissPolicy `json:"miss_policy"`
	Grace      Duration   `json:"grace"`
	Action     Action     `json:"action"`

	// Set by the server.
	State    AppointmentState `json:"state"`
	Noticed  bool             `json:"noticed"`        // that it approaches
	Last     *AppointmentEnd  `json:"last,omitempty"` // how it ended, or did the last time
	Revision uint64           `json:"revision"`

	Work *AppointmentWork `json:"-"`
}

// AppointmentEnd says how an appointment ended.
type AppointmentEnd struct {
	State        AppointmentState `json:"state"` // fired or missed
	ScheduledFor time.Time        `json:"scheduled_for"`
	At           time.Time        `json:"at"`
	Outcome      string           `json:"dispatch_outcome,omitempty"` // OutcomeOK or a Code
	EventID      string           `json:"event_id,omitempty"`
	Seq          uint64           `json:"seq,omitempty"`
	Reason       string           `json:"reason,omitempty"` // why it was missed
}

// AppointmentWork is what servers need to go on from where another one died.
type AppointmentWork struct {
	Series string  `json:"series"`          // the same for all that comes of one definition
	Event  string  `json:"event"`           // the id of the event of the next firing, which nobody can know before
	Claim  *Claim  `json:"claim,omitempty"` // while it fires
	Untold *Untold `json:"untold,omitempty"`
}

// Untold is a system event that tells of what is stored with it, and is not published yet.
type Untold struct {
	ID   string          `json:"id"`
	Kind string          `json:"kind"`
	Data json.RawMessage `json:"data"`
}

const (
	maxNotice = 30 * 24 * time.Hour
	minEvery  = time.Second
	maxCron   = 256
)

// SetDefaults fills in what was left out.
func (a *Appointment) SetDefaults() { a.MissPolicy = cmp.Or(a.MissPolicy, MissCatchUp) }

// Validate returns an error unless an appointment with its defaults set keeps every rule that needs nothing but
// itself. Codes as of Action.Validate.
func (a *Appointment) Validate() error {
	switch {
	case a.Cron != "" && (!a.At.IsZero() || a.Every != 0):
		return Errorf(InvalidRequest, "cron says when it fires: leave at and every out").With("field", "cron")
	case a.Cron == "" && a.TimeZone != "":
		return Errorf(InvalidRequest, "time_zone belongs to cron only; at has its own, such as 2026-01-31T08:00:00+01:00").With("field", "time_zone")
	case len(a.Cron) > maxCron || len(a.TimeZone) > maxCron:
		return Errorf(InvalidRequest, "cron and time_zone: use at most %d bytes", maxCron).With("field", "cron")
	case a.Cron == "" && a.At.IsZero():
		return Errorf(InvalidRequest, "at is missing: write a time such as 2026-01-31T08:00:00Z").With("field", "at")
	case a.Grace > 0 && a.MissPolicy != MissCatchUpWithin:
		return Errorf(InvalidRequest, "grace belongs to the miss_policy %s only", MissCatchUpWithin).With("field", "grace")
	case a.Grace <= 0 && a.MissPolicy == MissCatchUpWithin:
		return Errorf(InvalidRequest, "the miss_policy %s needs a grace, such as 10m", MissCatchUpWithin).With("field", "grace")
	case a.Every != 0 && a.Every < Duration(minEvery):
		return Errorf(InvalidRequest, "every is %s; use at least %s", a.Every, minEvery).With("field", "every")
	case a.Every != 0 && a.Notice >= a.Every:
		return Errorf(InvalidRequest, "notice is %s, and the appointment fires every %s: use less", a.Notice, a.Every).With("field", "notice")
	}
	return cmp.Or(
		CheckInstructionID(KindAppointment, a.ID),
		oneOf("miss_policy", a.MissPolicy, MissDrop, MissCatchUpWithin, MissCatchUp),
		atLeast("notice", a.Notice, 0),
		atMost("notice", a.Notice, Duration(maxNotice)),
		a.Action.Validate(),
	)
}

// Repeats reports whether an appointment fires again and again.
func (a *Appointment) Repeats() bool { return a.Every > 0 || a.Cron != "" }

// AppointmentPath returns where the system events about an appointment live.
func AppointmentPath(id string) Path { return Path("/_sys/appointments/" + id) }
