package subscriptioncmd

import (
	"cmp"
	"context"
	"strconv"
	"time"

	"github.com/sluice-io/sluice/internal/command/cmdkit"
	"github.com/sluice-io/sluice/internal/terminal"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// DeliveriesCmd shows deliveries. --retry and --discard apply to EventID only, and exclude each
// other.
type DeliveriesCmd struct {
	terminal.Watching

	Sub     string   `arg:"" help:"Subscription."`
	EventID string   `arg:"" optional:"" name:"event" help:"Event to explain with its attempts: its ID or sequence."`
	Retry   bool     `help:"Retry the event: immediately if it is parked or held, otherwise as a replay." xor:"act"`
	Discard bool     `help:"Discard the event that holds its lane: it becomes a dead letter, and the lane continues." xor:"act"`
	State   string   `help:"Filter by state: delivered, retrying, held, dead, parked (retrying or held), or failed (all except delivered)." placeholder:"STATE"`
	Since   string   `help:"Events after a sequence, or attempts since a time or an age such as 10m or 7d." placeholder:"WHEN"`
	Until   string   `help:"Latest time, or an age." placeholder:"WHEN"`
	Path    string   `aliases:"pattern" help:"Filter by path." placeholder:"PATTERN"`
	Type    []string `aliases:"types" help:"Filter by type." placeholder:"TYPE"`
	Limit   int      `aliases:"last" help:"Maximum number of results; 0: all. --last is another name." default:"100"`
}

// Run lists deliveries, or explains one. The list is newest first. --retry and --discard wait for
// the end of the replay that executes them, and print it. Both exclude --watch, which would repeat
// them.
func (c *DeliveriesCmd) Run(ctx context.Context, s *terminal.Session) error {
	if c.Watch && (c.Retry || c.Discard) {
		return terminal.Usagef("--watch excludes --retry and --discard")
	}
	return c.Repeat(ctx, s, func() error { return c.show(ctx, s) })
}

// show acts on a delivery, explains it, or lists deliveries, by the flags. Times and the event are
// checked before the first request.
func (c *DeliveriesCmd) show(ctx context.Context, s *terminal.Session) error {
	until, err := cmdkit.TimeOrAgo("until", c.Until)
	if err = cmp.Or(err, cmdkit.CheckSince(c.Since)); err != nil {
		return err
	}
	api, err := s.Client()
	if err != nil {
		return err
	}
	switch {
	case c.Retry:
		return c.act(ctx, s, api, api.RetryDelivery)
	case c.Discard:
		return c.act(ctx, s, api, api.DiscardDelivery)
	}
	if c.EventID != "" {
		d, err := api.Delivery(ctx, c.Sub, c.EventID)
		if err != nil {
			return err
		}
		return s.Show(d, func() error { return deliveryTable(s, d) })
	}
	all, err := terminal.Collect(c.Limit, func(cursor string, most int) (client.Page[client.Delivery], error) {
		q := client.DeliveriesQuery{
			State: c.State, Since: c.Since, Until: until, Path: sluice.Pattern(c.Path), Types: c.Type, Limit: most, Cursor: cursor,
		}
		return api.Deliveries(ctx, c.Sub, q)
	})
	if err != nil {
		return err
	}
	return s.Show(all, func() error {
		rows := make([][]string, len(all))
		for i, d := range all {
			rows[i] = []string{
				seqOf(d), terminal.OrDash(d.EventID) + cmdkit.OtherEvents(d.Batch), terminal.OrDash(string(d.Path)), terminal.OrDash(d.Type), deliveryState(d), strconv.Itoa(d.AttemptCount),
				cmdkit.HTTPStatus(d.LastStatus), terminal.FormatTime(d.LastAttemptAt), terminal.FormatTimePtr(d.NextAttemptAt), terminal.OrDash(d.LastError),
			}
		}
		return s.Table("SEQ | EVENT | PATH | TYPE | STATE | ATTEMPTS | STATUS | LAST ATTEMPT | NEXT ATTEMPT | ERROR", rows)
	})
}

// act requires an event. An interrupt ends the waiting and not the replay, which the error names. A
// cancelled replay is an error, too.
func (c *DeliveriesCmd) act(ctx context.Context, s *terminal.Session, api *client.Client, act func(ctx context.Context, id, event string) (sluice.Replay, error)) error {
	if c.EventID == "" && c.Discard {
		return terminal.Usagef("--discard: name the event; 'sluice sub status' lists held lanes")
	}
	if c.EventID == "" {
		return terminal.Usagef("--retry: name the event; for many events, use 'sluice dead redrive' or 'sluice sub replay'")
	}
	rep, err := act(ctx, c.Sub, c.EventID)
	if err == nil {
		rep, err = waitForReplay(ctx, s, api, rep)
	}
	if err != nil {
		return err
	}
	return showEnded(s, rep, func() error { return replayTable(s, []sluice.Replay{rep}) })
}

// deliveryState returns the state and, for held and dead, its reason.
func deliveryState(d client.Delivery) string { return cmdkit.Because(d.State, string(d.Reason)) }

// seqOf returns the event's sequence, or the range that was lost. A range is "7–9".
func seqOf(d client.Delivery) string {
	if d.LastSeq > d.Seq {
		return strconv.FormatUint(d.Seq, 10) + "–" + strconv.FormatUint(d.LastSeq, 10)
	}
	return strconv.FormatUint(d.Seq, 10)
}

// deliveryTable prints the explanation of the state, and the attempts if any are stored. Attempts
// are stored for the attempts.max_age of the server, by default a week.
func deliveryTable(s *terminal.Session, d client.Delivery) error {
	next := ""
	if d.NextAttemptAt != nil {
		next = terminal.FormatTime(*d.NextAttemptAt)
	}
	err := s.Facts("event", d.EventID, "seq", seqOf(d), "path", string(d.Path), "type", d.Type,
		"state", deliveryState(d), "why", d.Explanation, "next attempt", next)
	if err != nil || len(d.Attempts) == 0 {
		return err
	}
	if err := s.Say(""); err != nil {
		return err
	}
	return attemptTable(s, d.Attempts)
}

// attemptTable prints attempts in the order given. RESPONSE is the start of the response's body, or
// the output of a handler.
func attemptTable(s *terminal.Session, attempts []sluice.Attempt) error {
	rows := make([][]string, len(attempts))
	for i, a := range attempts {
		rows[i] = []string{
			cmdkit.AttemptNumber(a), terminal.FormatTime(a.StartedAt), a.Duration.Std().Round(time.Microsecond).String(), string(a.Outcome),
			cmdkit.HTTPStatus(a.Status), terminal.OrDash(a.Error), terminal.OrDash(cmp.Or(a.Response, a.Output)),
		}
	}
	return s.Table("ATTEMPT | STARTED | DURATION | OUTCOME | STATUS | ERROR | RESPONSE", rows)
}
