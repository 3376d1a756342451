package main

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/sluice-io/sluice/internal/command/cmdkit"
	"github.com/sluice-io/sluice/internal/terminal"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// tailWait is how long a request waits for attempts.
const tailWait = 25 * time.Second

type tailCmd struct {
	Sub    string `arg:"" optional:"" name:"subscription" help:"Subscription; default: all of the namespace."`
	NS     string `name:"ns" help:"Namespace; default: that of the subscription, or default." env:"SLUICE_NS"`
	Failed bool   `help:"Show failed attempts only."`
}

// Help shows examples.
func (*tailCmd) Help() string {
	return `Examples:

  sluice tail
  sluice tail orders --failed
  sluice tail -o jsonl | jq .status`
}

// Run prints attempts until it is interrupted. The first request returns the present place and no
// attempts, so nothing of the past is shown. Later ones are long polls of tailWait. An error ends
// it. An interrupt ends it with exit status 0.
func (c *tailCmd) Run(ctx context.Context, s *terminal.Session) error {
	api, err := s.Client()
	if err != nil {
		return err
	}
	if c.Sub != "" && c.NS == "" {
		sub, err := api.Subscription(ctx, c.Sub)
		if err != nil {
			return err
		}
		c.NS = sub.Namespace
	}
	q := client.AttemptsQuery{Subscription: c.Sub}
	paint := s.Painter("auto", s.Watched)
	for ctx.Err() == nil {
		page, err := api.Attempts(ctx, cmp.Or(c.NS, sluice.DefaultNamespace), q)
		if ctx.Err() != nil {
			break
		}
		if err != nil {
			return err
		}
		q.After, q.Wait = page.Next, tailWait
		for i := range page.Items {
			if err := c.print(s, paint, &page.Items[i]); err != nil {
				return err
			}
		}
	}
	return nil //nolint:nilerr // it was interrupted
}

// print prints an attempt as a line, unless --failed excludes it.
func (c *tailCmd) print(s *terminal.Session, paint terminal.Painter, a *sluice.Attempt) error {
	switch {
	case c.Failed && a.Outcome == sluice.Delivered:
		return nil
	case s.IsJSON():
		return s.PrintLine(a)
	}
	return s.Say("%s  %s  %s  %s  %s  %s  %s%s", a.StartedAt.Local().Format(time.TimeOnly), paint.Named(a.Subscription), a.EventID+cmdkit.OtherEvents(len(a.Batch)), string(a.Path),
		"#"+cmdkit.AttemptNumber(*a), paint.Paint(colourOf(a), resultOf(a)), a.Duration.Std().Round(time.Microsecond*100).String(), consequence(&a.Verdict))
}

// resultOf returns the status of the response, or why there is none. A program of a module has no
// status.
func resultOf(a *sluice.Attempt) string {
	if a.Status != 0 {
		return cmdkit.HTTPStatus(a.Status)
	}
	return cmp.Or(a.Error, string(a.Outcome))
}

// colourOf returns green for a delivered attempt, red for one that ends or holds a lane or the
// subscription, and yellow for one that is followed by another.
func colourOf(a *sluice.Attempt) string {
	switch {
	case a.Outcome == sluice.Delivered:
		return terminal.Green
	case a.Verdict.Dead != "" || a.Verdict.Held != "" || a.Verdict.Cancel:
		return terminal.Red
	}
	return terminal.Yellow
}

// consequence describes what follows from a failed attempt. It begins with two spaces, or is "".
func consequence(v *sluice.Verdict) string {
	var all []string
	if !v.Again.IsZero() {
		all = append(all, "again at "+v.Again.Local().Format(time.TimeOnly))
	}
	if v.Dead != "" {
		all = append(all, "dead letter: "+string(v.Dead))
	}
	if v.Held != "" {
		all = append(all, "holds its lane: "+string(v.Held))
	}
	if v.Cancel {
		all = append(all, "subscription cancelled")
	}
	if len(all) == 0 {
		return ""
	}
	return "  " + strings.Join(all, ", ")
}
