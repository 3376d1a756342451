package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/sluice-io/sluice/internal/command/cmdkit"
	"github.com/sluice-io/sluice/internal/terminal"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// pubCmd publishes events. Without --from it publishes one event, with it the lines of a file in
// batches.
type pubCmd struct {
	Path string `arg:"" optional:"" help:"Path of the event, such as /orders/42; with --from, for lines without a path."`
	Data string `arg:"" optional:"" help:"Data of the event: JSON, or text that does not start like JSON; - reads any data from stdin."`

	NS    string `name:"ns" help:"Namespace." default:"default" env:"SLUICE_NS"`
	Type  string `help:"Type of the event; with --from, for lines without a type." placeholder:"TYPE"`
	ID    string `help:"ID of the event; default: generated. A second event with the same ID is not stored." placeholder:"ID"`
	Cause string `help:"ID of the event in the namespace that caused this one (causationid)." placeholder:"ID"`
	From  string `help:"Publish a file's lines, each {\"id\",\"type\",\"path\",\"data\"}; - is stdin." placeholder:"FILE"`
	Batch int    `help:"Batch size with --from, 1 to 1000; each batch is stored atomically." default:"100"`
}

// pubReport is the outcome of publishing. Published includes duplicates. Seconds is the time from
// the start of publishing to the last response.
type pubReport struct {
	Published  int            `json:"published"`
	Duplicates int            `json:"duplicates"`
	Seconds    float64        `json:"seconds"`
	PerSecond  float64        `json:"per_second"`
	Event      *sluice.Stored `json:"event,omitempty"` // if it was one
	started    time.Time      //
}

// Run publishes.
func (c *pubCmd) Run(ctx context.Context, s *terminal.Session) error {
	if err := c.check(); err != nil {
		return err
	}
	if strings.HasPrefix(strings.TrimSpace(s.Data), "{") {
		return terminal.Usagef("--data is the data directory; write the event's data after its path: sluice pub /orders/42 '{\"total\":5}'")
	}
	api, err := s.Client()
	if err != nil {
		return err
	}
	if c.From != "" {
		return c.many(ctx, s, api)
	}
	return c.one(ctx, s, api)
}

// check returns a usage error for flags that exclude each other.
func (c *pubCmd) check() error {
	switch {
	case c.From == "" && c.Path == "":
		return terminal.Usagef("a path is required, such as /orders/42, or --from with a file")
	case c.From != "" && (c.Data != "" || c.ID != ""):
		return terminal.Usagef("data and --id apply to a single event; with --from, write them in the lines")
	case c.From != "" && c.Cause != "":
		return terminal.Usagef("--cause applies to a single event, not to --from")
	case c.Batch < 1 || c.Batch > 1000:
		return terminal.Usagef("--batch %d: write 1 to 1000", c.Batch)
	case c.Path != "":
		if _, err := sluice.ParsePath(c.Path); err != nil {
			return terminal.Usage(err)
		}
	}
	return cmdkit.CheckData(c.Data)
}

// one publishes one event. A duplicate is a success: exit status 0, with the sequence of the first
// one. Without --id, an invocation is a new event.
func (c *pubCmd) one(ctx context.Context, s *terminal.Session, api *client.Client) error {
	ev, err := cmdkit.EventOf(s, c.Path, c.Data)
	if err != nil {
		return err
	}
	ev.ID, ev.Type = c.ID, c.Type
	if c.Cause != "" {
		ev.Extensions = map[string]string{sluice.CausationID: c.Cause}
	}
	report := pubReport{started: time.Now()}
	stored, err := api.Publish(ctx, c.NS, ev)
	if err != nil {
		return err
	}
	report.add(stored)
	report.Event = &stored[0]
	report.finish()
	return s.Show(report, func() error {
		if stored[0].Duplicate {
			return s.Say("Event %s was stored before, as %d.", stored[0].ID, stored[0].Seq)
		}
		return s.Say("Stored event %s at %s as %d.", stored[0].ID, stored[0].Path, stored[0].Seq)
	})
}

// many publishes the lines of a file. Batches are stored in the order of the file, one request at a
// time, each as a whole or not at all. After an error the number of published events is in the
// message. Lines with IDs make a repetition of the whole file safe within the dedup window.
func (c *pubCmd) many(ctx context.Context, s *terminal.Session, api *client.Client) (err error) {
	lines, err := terminal.OpenEvents(c.From, s.Stdin)
	if err != nil {
		return err
	}
	defer lines.Close()
	bar := terminal.NewProgress(s, lines.Size)
	defer bar.Close()
	report := pubReport{started: time.Now()}
	for !lines.Ended {
		if ctx.Err() != nil {
			return report.incomplete(context.Cause(ctx))
		}
		events, err := lines.Next(c.Batch, sluice.Event{Path: sluice.Path(c.Path), Type: c.Type})
		if err != nil {
			return report.incomplete(err)
		}
		stored, err := api.Publish(ctx, c.NS, events...)
		if err != nil {
			return report.incomplete(err)
		}
		report.add(stored)
		bar.Advance(lines.Read)
	}
	bar.Close()
	report.finish()
	return s.Show(report, func() error {
		return s.Say("Published %d events in %s (%.0f/s), including %d duplicates.",
			report.Published, time.Duration(report.Seconds*float64(time.Second)).Round(time.Millisecond), report.PerSecond, report.Duplicates)
	})
}

// add counts the events of one response.
func (r *pubReport) add(stored []sluice.Stored) {
	r.Published += len(stored)
	for _, one := range stored {
		if one.Duplicate {
			r.Duplicates++
		}
	}
}

// finish sets the figures; per_second is finite for any duration.
func (r *pubReport) finish() {
	r.Seconds = time.Since(r.started).Seconds()
	r.PerSecond = float64(r.Published) / max(r.Seconds, 1e-6)
}

// incomplete adds the progress to an error of publishing, so that the user can resume it.
func (r *pubReport) incomplete(err error) error {
	return fmt.Errorf("after %d published events: %w", r.Published, err)
}
