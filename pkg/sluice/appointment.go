package sluice

import (
	"cmp"
	"encoding/json"
	"time"
)

// MissPolicy determines what happens to an appointment if no server was running at its time.
type MissPolicy string

// The policies.
const (
	MissDrop          MissPolicy = "drop"            // the appointment is missed
	MissCatchUpWithin MissPolicy = "catch_up_within" // it fires if at most the grace has passed, otherwise it is missed
	MissCatchUp       MissPolicy = "catch_up"        // it fires, however late it is
)

// AppointmentState is the state of an appointment.
type AppointmentState string

// The states. Fired and missed appointments remain visible for a day; cancelled ones are removed at
// once.
const (
	AppointmentWaiting   AppointmentState = "waiting"
	AppointmentFiring    AppointmentState = "firing" // its action is being performed; it can no longer be cancelled
	AppointmentFired     AppointmentState = "fired"
	AppointmentMissed    AppointmentState = "missed"
	AppointmentCancelled AppointmentState = "cancelled"
)

// Reasons for a missed appointment.
const (
	MissedByPolicy = "miss_policy"     // dropped because no server was running
	MissedByGrace  = "grace_exceeded"  // no server was running for longer than the grace
	MissedByClock  = "clock_untrusted" // the clock was changed at its time and could not be trusted
)

// Appointment is an instruction that fires at a time (S2-37).
type Appointment struct {
	Creator

	ID        string    `json:"id"`
	Namespace string    `json:"namespace"`
	At        time.Time `json:"at"` // for a recurring appointment, the next time
	// Every is the interval of further firings; 0: none, unless Cron is set.
	Every Duration `json:"every,omitempty"`
	// Cron is a recurring schedule in the five fields of cron(8). It replaces At and Every.
	Cron     string `json:"cron,omitempty"`
	TimeZone string `json:"time_zone,omitempty"` // IANA time zone of Cron; "": UTC
	// Notice is how long in advance appointment.approaching is published; 0: it is not published.
	Notice     Duration   `json:"notice"`
	MissPolicy MissPolicy `json:"miss_policy"`
	Grace      Duration   `json:"grace"`
	Action     Action     `json:"action"`

	// Set by the server.
	State   AppointmentState `json:"state"`
	Noticed bool             `json:"noticed"` // whether appointment.approaching has been published
	// Last describes how the appointment ended; for a recurring appointment, how its last firing
	// ended.
	Last     *AppointmentEnd `json:"last,omitempty"`
	Revision uint64          `json:"revision"`

	Work *AppointmentWork `json:"-"`
}

// AppointmentEnd describes how an appointment ended.
type AppointmentEnd struct {
	State        AppointmentState `json:"state"` // fired or missed
	ScheduledFor time.Time        `json:"scheduled_for"`
	At           time.Time        `json:"at"`
	Outcome      string           `json:"dispatch_outcome,omitempty"` // OutcomeOK or a Code
	EventID      string           `json:"event_id,omitempty"`
	Seq          uint64           `json:"seq,omitempty"`
	Reason       string           `json:"reason,omitempty"` // why it was missed
}

// AppointmentWork is the state that a server needs to continue the work of a server that died.
type AppointmentWork struct {
	Series string  `json:"series"`          // the same for all firings of one definition
	Event  string  `json:"event"`           // unpredictable ID of the event of the next firing
	Claim  *Claim  `json:"claim,omitempty"` // set while it fires
	Untold *Untold `json:"untold,omitempty"`
}

// Untold is a system event that is stored with the change it reports, and is not published yet.
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

// SetDefaults sets the defaults of empty fields.
func (a *Appointment) SetDefaults() { a.MissPolicy = cmp.Or(a.MissPolicy, MissCatchUp) }

// Validate checks all rules that need only the appointment, with its defaults set. Codes: those of
// Action.Validate.
func (a *Appointment) Validate() error {
	switch {
	case a.Cron != "" && (!a.At.IsZero() || a.Every != 0):
		return Errorf(InvalidRequest, "cron sets the times: omit at and every").With("field", "cron")
	case a.Cron == "" && a.TimeZone != "":
		return Errorf(InvalidRequest, "time_zone requires cron; at has its own offset, such as 2026-01-31T08:00:00+01:00").With("field", "time_zone")
	case len(a.Cron) > maxCron || len(a.TimeZone) > maxCron:
		return Errorf(InvalidRequest, "cron and time_zone: use at most %d bytes", maxCron).With("field", "cron")
	case a.Cron == "" && a.At.IsZero():
		return Errorf(InvalidRequest, "at is missing: write a time such as 2026-01-31T08:00:00Z").With("field", "at")
	case a.Grace > 0 && a.MissPolicy != MissCatchUpWithin:
		return Errorf(InvalidRequest, "grace requires the miss_policy %s", MissCatchUpWithin).With("field", "grace")
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

// Repeats reports whether an appointment is recurring.
func (a *Appointment) Repeats() bool { return a.Every > 0 || a.Cron != "" }

// AppointmentPath returns the path of the system events of an appointment.
func AppointmentPath(id string) Path { return Path("/_sys/appointments/" + id) }
