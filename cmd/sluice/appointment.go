package main

import (
	"context"
	"strconv"
	"time"

	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// appointCmd is about appointments.
type appointCmd struct {
	Set  appointSetCmd  `cmd:"" help:"Make an appointment, or change it."`
	LS   appointLsCmd   `cmd:"" name:"ls" help:"List appointments, the next first."`
	Show appointShowCmd `cmd:"" help:"Show one."`
	RM   appointRmCmd   `cmd:"" name:"rm" help:"Cancel one: it does not fire."`
}

type appointSetCmd struct {
	ID   string `arg:"" help:"Its id: letters, digits, _ and -."`
	Path string `arg:"" help:"Where the event will be published, such as /lamps/1."`
	Data string `arg:"" optional:"" help:"The event's data: JSON, or text that does not begin like it; - is stdin."`

	NS     string            `name:"ns" help:"The namespace." default:"default"`
	Type   string            `help:"The event's type." default:"message"`
	At     time.Time         `help:"When it fires." placeholder:"TIME" xor:"when"`
	In     time.Duration     `help:"After how long it fires, such as 90s, 10m or 7d." placeholder:"DURATION" xor:"when"`
	Every  time.Duration     `help:"After how long it fires again; without it, it fires once." placeholder:"DURATION"`
	Notice time.Duration     `help:"How long before it is told that it approaches; without it, it is not." placeholder:"DURATION"`
	Miss   sluice.MissPolicy `help:"If no server is there at the time: drop, catch_up_within (with --grace) or catch_up." placeholder:"POLICY" default:"catch_up" enum:"drop,catch_up_within,catch_up"`
	Grace  time.Duration     `help:"So late it still fires, with --miss catch_up_within." placeholder:"DURATION"`
}

// Run makes an appointment.
func (c *appointSetCmd) Run(ctx context.Context, s *session) error {
	at, err := moment(c.At, c.In)
	if err != nil {
		return err
	}
	action, err := c.action(s)
	if err != nil {
		return err
	}
	api, err := s.client()
	if err != nil {
		return err
	}
	a, err := api.PutAppointment(ctx, c.NS, c.ID, client.AppointmentSpec{
		At: at, Every: sluice.Duration(c.Every), Notice: sluice.Duration(c.Notice), MissPolicy: c.Miss, Grace: sluice.Duration(c.Grace), Action: action,
	}, 0)
	if err != nil {
		return err
	}
	return s.show(a, func() error {
		return s.say("Appointment %s publishes on %s at %s.", a.ID, a.Action.Path, exactly(a.At))
	})
}

// action returns what is to be published.
func (c *appointSetCmd) action(s *session) (sluice.Action, error) {
	ev, err := eventOf(s, c.Path, c.Data)
	if err != nil {
		return sluice.Action{}, err
	}
	action := sluice.Action{Path: ev.Path, Type: c.Type, DataContentType: ev.ContentType, Data: ev.Data}
	switch {
	case len(ev.Data) == 0:
		action.DataContentType = ""
	case ev.ContentType == "application/octet-stream":
		return action, usagef("the data of an appointment is JSON or text")
	case ev.ContentType != "":
		action.Data = sluice.AppendString(nil, string(ev.Data))
	}
	if err := action.Validate(); err != nil {
		return action, usageError{err}
	}
	return action, nil
}

type appointLsCmd struct {
	NS    string `name:"ns" help:"The namespace." default:"default"`
	Limit int    `help:"Show at most so many; 0: all." default:"0"`
}

// Run lists appointments.
func (c *appointLsCmd) Run(ctx context.Context, s *session) error {
	api, err := s.client()
	if err != nil {
		return err
	}
	all, err := collect(c.Limit, func(cursor string, most int) (client.Page[sluice.Appointment], error) {
		return api.Appointments(ctx, c.NS, most, cursor)
	})
	if err != nil {
		return err
	}
	return s.show(all, func() error {
		rows := make([][]string, len(all))
		for i := range all {
			a := &all[i]
			rows[i] = []string{a.ID, exactly(a.At), every(a), string(a.State), string(a.Action.Path), a.Action.Type, string(a.CreatedBy), ended(a.Last)}
		}
		return s.table("ID | AT | EVERY | STATE | PATH | TYPE | BY | LAST", rows)
	})
}

func every(a *sluice.Appointment) string {
	if a.Every == 0 {
		return "-"
	}
	return span(a.Every)
}

// ended says how an appointment ended, or did the last time.
func ended(last *sluice.AppointmentEnd) string {
	switch {
	case last == nil:
		return "-"
	case last.State == sluice.AppointmentMissed:
		return "missed: " + last.Reason
	}
	return "fired: " + last.Outcome
}

type appointShowCmd struct {
	ID string `arg:"" help:"Its id."`
	NS string `name:"ns" help:"The namespace." default:"default"`
}

// Run shows an appointment.
func (c *appointShowCmd) Run(ctx context.Context, s *session) error {
	api, err := s.client()
	if err != nil {
		return err
	}
	a, err := api.GetAppointment(ctx, c.NS, c.ID)
	if err != nil {
		return err
	}
	return s.show(a, func() error {
		facts := []string{
			"id", a.ID, "state", string(a.State), "at", exactly(a.At), "every", every(&a), "notice", span(a.Notice), "noticed", strconv.FormatBool(a.Noticed),
			"miss policy", string(a.MissPolicy), "path", string(a.Action.Path), "type", a.Action.Type, "data", excerpt(a.Action.Data),
			"made by", string(a.CreatedBy), "made", when(a.CreatedAt),
		}
		if a.Grace > 0 {
			facts = append(facts, "grace", span(a.Grace))
		}
		if a.Last != nil {
			facts = append(facts, "last", ended(a.Last), "last for", exactly(a.Last.ScheduledFor), "last at", exactly(a.Last.At), "event", a.Last.EventID)
		}
		return s.facts(facts...)
	})
}

type appointRmCmd struct {
	ID string `arg:"" help:"Its id."`
	NS string `name:"ns" help:"The namespace." default:"default"`
}

// Run cancels an appointment.
func (c *appointRmCmd) Run(ctx context.Context, s *session) error {
	api, err := s.client()
	if err != nil {
		return err
	}
	if err := api.CancelAppointment(ctx, c.NS, c.ID); err != nil {
		return err
	}
	return s.show(map[string]string{"cancelled": c.ID}, func() error { return s.say("Cancelled appointment %s.", c.ID) })
}
