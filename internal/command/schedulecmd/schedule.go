package schedulecmd

import (
	"context"
	"time"

	"github.com/sluice-io/sluice/internal/command/cmdkit"
	"github.com/sluice-io/sluice/internal/terminal"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Cmd manages events that are stored at a later time.
type Cmd struct {
	Add  scheduleAddCmd  `cmd:"" default:"withargs" help:"Schedule an event; the word add is optional: sluice schedule PATH DATA --in 10m."`
	LS   scheduleLsCmd   `cmd:"" name:"ls" help:"List scheduled events, soonest first."`
	Show scheduleShowCmd `cmd:"" help:"Show a scheduled event."`
	RM   scheduleRmCmd   `cmd:"" name:"rm" help:"Cancel a scheduled event; it is never stored."`
}

// scheduleAddCmd schedules an event. One of At and In is required.
type scheduleAddCmd struct {
	Path string `arg:"" help:"Path of the event, such as /orders/42."`
	Data string `arg:"" optional:"" help:"Data of the event: JSON, or text that does not start like JSON; - reads any data from stdin."`

	NS    string        `name:"ns" help:"Namespace." default:"default" env:"SLUICE_NS"`
	Type  string        `help:"Type of the event." placeholder:"TYPE"`
	ID    string        `help:"ID of the event; default: generated. A second event with the same ID is not stored." placeholder:"ID"`
	Cause string        `help:"ID of the event in the namespace that caused this one (causationid)." placeholder:"ID"`
	At    time.Time     `help:"Time at which to store the event." placeholder:"TIME" xor:"when"`
	In    time.Duration `help:"Delay until the event is stored, such as 90s, 10m or 7d." placeholder:"DURATION" xor:"when"`
}

// Run schedules an event. A repetition with the same --id stores and schedules nothing, and prints
// where the first event is stored, or for when it is scheduled. A time that has passed stores the
// event at once. Code QuotaExceeded if too many events wait.
func (c *scheduleAddCmd) Run(ctx context.Context, s *terminal.Session) error {
	if _, err := sluice.ParsePath(c.Path); err != nil {
		return terminal.Usage(err)
	}
	at, err := moment(c.At, c.In)
	if err != nil {
		return err
	}
	ev, err := cmdkit.EventOf(s, c.Path, c.Data)
	if err != nil {
		return err
	}
	api, err := s.Client()
	if err != nil {
		return err
	}
	ev.ID, ev.Type = c.ID, c.Type
	if c.Cause != "" {
		ev.Extensions = map[string]string{sluice.CausationID: c.Cause}
	}
	held, err := api.Schedule(ctx, c.NS, ev, at)
	if err != nil {
		return err
	}
	return s.Show(held, func() error {
		switch {
		case held.Duplicate && held.Seq > 0:
			return s.Say("Event %s was stored before, as %d.", held.ID, held.Seq)
		case held.Duplicate:
			return s.Say("Event %s was scheduled before, for %s.", held.ID, exactly(held.DeliverAt))
		case held.Seq > 0:
			return s.Say("The time has passed; stored event %s at %s as %d.", held.ID, held.Path, held.Seq)
		}
		return s.Say("Event %s will be stored at %s on %s.", held.ID, held.Path, exactly(held.DeliverAt))
	})
}

// moment returns the time in the flags. --in counts from the clock of this machine, and is sent as
// a time, so clocks that differ shift it. Without a flag it returns a usage error. A time in the
// past is valid.
func moment(at time.Time, in time.Duration) (time.Time, error) {
	switch {
	case in < 0:
		return at, terminal.Usagef("--in %s: write a duration, such as 10m", in)
	case in > 0:
		return time.Now().Add(in), nil
	case at.IsZero():
		return at, terminal.Usagef("a time is required: --at 2031-01-31T08:00:00Z, or --in 10m")
	}
	return at, nil
}

// exactly formats a time with milliseconds, in UTC: firings are due to the millisecond.
func exactly(at time.Time) string { return at.UTC().Format("2006-01-02T15:04:05.999Z07:00") }

type scheduleLsCmd struct {
	Pattern string `arg:"" optional:"" help:"Filter by path, such as /orders/**."`
	NS      string `name:"ns" help:"Namespace." default:"default" env:"SLUICE_NS"`
	Limit   int    `help:"Maximum number of results; 0: all." default:"0"`
}

// Run lists the waiting events that the caller may see, the soonest first.
func (c *scheduleLsCmd) Run(ctx context.Context, s *terminal.Session) error {
	api, err := s.Client()
	if err != nil {
		return err
	}
	all, err := terminal.Collect(c.Limit, func(cursor string, most int) (client.Page[client.ScheduledEvent], error) {
		return api.Scheduled(ctx, c.NS, client.ScheduledQuery{Pattern: sluice.Pattern(c.Pattern), Limit: most, Cursor: cursor})
	})
	if err != nil {
		return err
	}
	return s.Show(all, func() error {
		rows := make([][]string, len(all))
		for i, one := range all {
			rows[i] = []string{exactly(one.DeliverAt), string(one.Path), one.Type, one.ID, string(one.CreatedBy), one.State, cmdkit.Excerpt(one.Event.Data)}
		}
		return s.Table("AT | PATH | TYPE | ID | BY | STATE | DATA", rows)
	})
}

type scheduleShowCmd struct {
	ID string `arg:"" help:"ID of the event."`
	NS string `name:"ns" help:"Namespace." default:"default" env:"SLUICE_NS"`
}

// Run shows a waiting event. Code NotFound once the event was stored or cancelled.
func (c *scheduleShowCmd) Run(ctx context.Context, s *terminal.Session) error {
	api, err := s.Client()
	if err != nil {
		return err
	}
	one, err := api.GetScheduled(ctx, c.NS, c.ID)
	if err != nil {
		return err
	}
	return s.Show(one, func() error {
		return s.Facts("id", one.ID, "state", one.State, "at", exactly(one.DeliverAt), "path", string(one.Path), "type", one.Type, "cause", one.Event.Extensions[sluice.CausationID],
			"data", cmdkit.Excerpt(one.Event.Data), "made by", string(one.CreatedBy), "made", terminal.FormatTime(one.CreatedAt))
	})
}

type scheduleRmCmd struct {
	ID string `arg:"" help:"ID of the event."`
	NS string `name:"ns" help:"Namespace." default:"default" env:"SLUICE_NS"`
}

// Run cancels a waiting event. If it succeeds, the event is never stored. Codes NotFound if it does
// not wait; Conflict while it is being stored.
func (c *scheduleRmCmd) Run(ctx context.Context, s *terminal.Session) error {
	api, err := s.Client()
	if err != nil {
		return err
	}
	if err := api.CancelScheduled(ctx, c.NS, c.ID); err != nil {
		return err
	}
	return s.Show(map[string]string{"cancelled": c.ID}, func() error {
		return s.Say("Cancelled event %s; it will not be stored.", c.ID)
	})
}
