package schedulecmd

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-io/sluice/internal/command/cmdkit"
	"github.com/sluice-io/sluice/internal/terminal"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// AppointmentCmd manages appointments.
type AppointmentCmd struct {
	Set  appointmentSetCmd  `cmd:"" help:"Create or update an appointment."`
	LS   appointmentLsCmd   `cmd:"" name:"ls" help:"List appointments, soonest first."`
	Show appointmentShowCmd `cmd:"" help:"Show an appointment."`
	RM   appointmentRmCmd   `cmd:"" name:"rm" help:"Cancel an appointment."`
}

// appointmentSetCmd creates or changes an appointment. One of At, In and Cron is required; Every
// goes with At or In, and Zone with Cron.
type appointmentSetCmd struct {
	ID   string `arg:"" help:"ID of the appointment: letters, digits, _ and -."`
	Path string `arg:"" help:"Path of the event, such as /lamps/1."`
	Data string `arg:"" optional:"" help:"Data of the event: JSON, or text that does not start like JSON; - reads stdin."`

	NS     string            `name:"ns" help:"Namespace." default:"default" env:"SLUICE_NS"`
	Type   string            `help:"Type of the event." default:"message"`
	At     time.Time         `help:"Time of the firing." placeholder:"TIME" xor:"when"`
	In     time.Duration     `help:"Delay until the firing, such as 90s, 10m or 7d." placeholder:"DURATION" xor:"when"`
	Cron   string            `help:"Recurring schedule in cron format: minute, hour, day of the month, month, day of the week." placeholder:"'30 8 * * 1-5'" xor:"when,again"`
	Zone   string            `help:"Time zone of --cron, such as Europe/Berlin; default: UTC." placeholder:"ZONE"`
	Every  time.Duration     `help:"Interval of further firings; default: fires once." placeholder:"DURATION" xor:"again"`
	Notice time.Duration     `help:"Time in advance at which appointment.approaching is published; default: never." placeholder:"DURATION"`
	Miss   sluice.MissPolicy `help:"Policy if no server runs at the time: drop, catch_up_within (with --grace) or catch_up." placeholder:"POLICY" default:"catch_up" enum:"drop,catch_up_within,catch_up"`
	Grace  time.Duration     `help:"Maximum delay with --miss catch_up_within." placeholder:"DURATION"`
}

// Run creates an appointment. Setting the same appointment again changes nothing. It replaces one
// of the same ID without a check of its revision. Codes Conflict while it fires; QuotaExceeded.
func (c *appointmentSetCmd) Run(ctx context.Context, s *terminal.Session) error {
	at, err := c.when()
	if err != nil {
		return err
	}
	action, err := c.action(s)
	if err != nil {
		return err
	}
	api, err := s.Client()
	if err != nil {
		return err
	}
	a, err := api.PutAppointment(ctx, c.NS, c.ID, client.AppointmentSpec{
		At: at, Every: sluice.Duration(c.Every), Cron: c.Cron, TimeZone: c.Zone, Notice: sluice.Duration(c.Notice), MissPolicy: c.Miss, Grace: sluice.Duration(c.Grace), Action: action,
	}, 0)
	if err != nil {
		return err
	}
	return s.Show(a, func() error {
		return s.Say("Appointment %s publishes on %s at %s.", a.ID, a.Action.Path, exactly(a.At))
	})
}

// when returns the first time; the zero time if it follows from the other flags. With --cron, the
// server computes it. Otherwise --at or --in is required, also with --every.
func (c *appointmentSetCmd) when() (time.Time, error) {
	if c.Cron != "" {
		return time.Time{}, nil
	}
	return moment(c.At, c.In)
}

// action returns the action to perform. Text becomes a JSON string with its content type beside it.
// Bytes that are no text are a usage error: an action is stored as JSON.
func (c *appointmentSetCmd) action(s *terminal.Session) (sluice.Action, error) {
	ev, err := cmdkit.EventOf(s, c.Path, c.Data)
	if err != nil {
		return sluice.Action{}, err
	}
	action := sluice.Action{Path: ev.Path, Type: c.Type, DataContentType: ev.ContentType, Data: ev.Data}
	switch {
	case len(ev.Data) == 0:
		action.DataContentType = ""
	case ev.ContentType == "application/octet-stream":
		return action, terminal.Usagef("the data of an appointment must be JSON or text")
	case ev.ContentType != "":
		action.Data = sluice.AppendString(nil, string(ev.Data))
	}
	if err := action.Validate(); err != nil {
		return action, terminal.Usage(err)
	}
	return action, nil
}

type appointmentLsCmd struct {
	NS    string `name:"ns" help:"Namespace." default:"default" env:"SLUICE_NS"`
	Limit int    `help:"Maximum number of results; 0: all." default:"0"`
}

// Run lists appointments, the soonest first. NEXT is "-" for one that will not fire again.
func (c *appointmentLsCmd) Run(ctx context.Context, s *terminal.Session) error {
	api, err := s.Client()
	if err != nil {
		return err
	}
	all, err := terminal.Collect(c.Limit, func(cursor string, most int) (client.Page[sluice.Appointment], error) {
		return api.Appointments(ctx, c.NS, most, cursor)
	})
	if err != nil {
		return err
	}
	return s.Show(all, func() error {
		rows := make([][]string, len(all))
		for i := range all {
			a := &all[i]
			rows[i] = []string{a.ID, next(a), every(a), string(a.State), string(a.Action.Path), a.Action.Type, string(a.CreatedBy), latest(a), ended(a.Last)}
		}
		return s.Table("ID | NEXT | EVERY | STATE | PATH | TYPE | BY | LAST | OUTCOME", rows)
	})
}

// every returns the cron expression with its time zone, the interval, or "-" for a single firing.
func every(a *sluice.Appointment) string {
	switch {
	case a.Cron != "":
		return strings.TrimSpace(a.Cron + " " + a.TimeZone)
	case a.Every == 0:
		return "-"
	}
	return terminal.FormatDuration(a.Every)
}

// next formats an appointment's next time; "-" if it has none. A fired or missed appointment
// without a repetition has none.
func next(a *sluice.Appointment) string {
	if a.State == sluice.AppointmentFired || a.State == sluice.AppointmentMissed {
		return "-"
	}
	return exactly(a.At)
}

// latest formats the time of an appointment's last firing; "-" if it has not fired.
func latest(a *sluice.Appointment) string {
	if a.Last == nil || a.Last.State != sluice.AppointmentFired {
		return "-"
	}
	return exactly(a.Last.At)
}

// ended describes how an appointment, or its last firing, ended.
func ended(last *sluice.AppointmentEnd) string {
	switch {
	case last == nil:
		return "-"
	case last.State == sluice.AppointmentMissed:
		return "missed: " + last.Reason
	}
	return "fired: " + last.Outcome
}

type appointmentShowCmd struct {
	ID string `arg:"" help:"ID of the appointment."`
	NS string `name:"ns" help:"Namespace." default:"default" env:"SLUICE_NS"`
}

// Run shows an appointment. Code NotFound also for an appointment that the caller does not manage.
func (c *appointmentShowCmd) Run(ctx context.Context, s *terminal.Session) error {
	api, err := s.Client()
	if err != nil {
		return err
	}
	a, err := api.GetAppointment(ctx, c.NS, c.ID)
	if err != nil {
		return err
	}
	return s.Show(a, func() error {
		facts := []string{
			"id", a.ID, "state", string(a.State), "at", exactly(a.At), "next firing", next(&a), "last firing", latest(&a), "every", every(&a), "notice", terminal.FormatDuration(a.Notice), "noticed", strconv.FormatBool(a.Noticed),
			"miss policy", string(a.MissPolicy), "path", string(a.Action.Path), "type", a.Action.Type, "data", cmdkit.Excerpt(a.Action.Data),
			"made by", string(a.CreatedBy), "made", terminal.FormatTime(a.CreatedAt),
		}
		if a.Grace > 0 {
			facts = append(facts, "grace", terminal.FormatDuration(a.Grace))
		}
		if a.Last != nil {
			facts = append(facts, "last", ended(a.Last), "last for", exactly(a.Last.ScheduledFor), "last at", exactly(a.Last.At), "event", a.Last.EventID)
		}
		return s.Facts(facts...)
	})
}

type appointmentRmCmd struct {
	ID string `arg:"" help:"ID of the appointment."`
	NS string `name:"ns" help:"Namespace." default:"default" env:"SLUICE_NS"`
}

// Run cancels an appointment. If it succeeds, a pending appointment never fires. Codes NotFound;
// Conflict while it fires. It does not ask, because set creates the appointment again.
func (c *appointmentRmCmd) Run(ctx context.Context, s *terminal.Session) error {
	api, err := s.Client()
	if err != nil {
		return err
	}
	if err := api.CancelAppointment(ctx, c.NS, c.ID); err != nil {
		return err
	}
	return s.Show(map[string]string{"cancelled": c.ID}, func() error { return s.Say("Cancelled appointment %s.", c.ID) })
}
