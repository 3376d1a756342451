package main

import (
	"context"
	"strconv"
	"time"

	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// deliveriesCmd looks at deliveries.
type deliveriesCmd struct {
	Sub     string   `arg:"" help:"Subscription."`
	EventID string   `arg:"" optional:"" name:"event" help:"Event to explain with its attempts: its ID or sequence."`
	Retry   bool     `help:"Retry the event: immediately if it is parked or held, otherwise as a replay." xor:"act"`
	Discard bool     `help:"Discard the event that holds its lane: it becomes a dead letter, and the lane continues." xor:"act"`
	State   string   `help:"Filter by state: delivered, retrying, held, dead, parked (retrying or held), or failed (all except delivered)." placeholder:"STATE"`
	Since   string   `help:"Earliest event: a sequence, a time, or an age such as 10m or 7d." placeholder:"WHEN"`
	Until   string   `help:"Latest time, or an age." placeholder:"WHEN"`
	Path    string   `aliases:"pattern" help:"Filter by path." placeholder:"PATTERN"`
	Type    []string `aliases:"types" help:"Filter by type." placeholder:"TYPE"`
	Limit   int      `help:"Maximum number of results; 0: all." default:"100"`
}

// Run lists deliveries, or explains one.
func (c *deliveriesCmd) Run(ctx context.Context, s *session) error {
	until, err := timeOrAgo("until", c.Until)
	if err != nil {
		return err
	}
	api, err := s.client()
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
		return s.show(d, func() error { return s.deliveryTable(d) })
	}
	all, err := collect(c.Limit, func(cursor string, most int) (client.Page[client.Delivery], error) {
		q := client.DeliveriesQuery{
			State: c.State, Since: c.Since, Until: until, Path: sluice.Pattern(c.Path), Types: c.Type, Limit: most, Cursor: cursor,
		}
		return api.Deliveries(ctx, c.Sub, q)
	})
	if err != nil {
		return err
	}
	return s.show(all, func() error {
		rows := make([][]string, len(all))
		for i, d := range all {
			rows[i] = []string{
				seqOf(d), orDash(d.EventID), orDash(string(d.Path)), orDash(d.Type), deliveryState(d), strconv.Itoa(d.AttemptCount),
				httpStatus(d.LastStatus), when(d.LastAttemptAt), maybeWhen(d.NextAttemptAt), orDash(d.LastError),
			}
		}
		return s.table("SEQ | EVENT | PATH | TYPE | STATE | ATTEMPTS | STATUS | LAST ATTEMPT | NEXT ATTEMPT | ERROR", rows)
	})
}

// attemptNumber returns the number of an attempt that counts.
func attemptNumber(a sluice.Attempt) string {
	if a.Probe {
		return "probe"
	}
	return strconv.Itoa(a.Number)
}

func (c *deliveriesCmd) act(ctx context.Context, s *session, api *client.Client, act func(ctx context.Context, id, event string) (sluice.Replay, error)) error {
	if c.EventID == "" && c.Discard {
		return usagef("--discard: name the event; 'sluice sub status' lists held lanes")
	}
	if c.EventID == "" {
		return usagef("--retry: name the event; for many events, use 'sluice dead redrive' or 'sluice sub replay'")
	}
	rep, err := act(ctx, c.Sub, c.EventID)
	if err == nil {
		rep, err = waitForReplay(ctx, s, api, rep)
	}
	if err != nil {
		return err
	}
	return s.show(rep, func() error { return s.replayTable([]sluice.Replay{rep}) })
}

func deliveryState(d client.Delivery) string { return because(d.State, string(d.Reason)) }

// seqOf is the event's sequence, or the range that was lost.
func seqOf(d client.Delivery) string {
	if d.LastSeq > d.Seq {
		return strconv.FormatUint(d.Seq, 10) + "–" + strconv.FormatUint(d.LastSeq, 10)
	}
	return strconv.FormatUint(d.Seq, 10)
}

func (s *session) deliveryTable(d client.Delivery) error {
	next := ""
	if d.NextAttemptAt != nil {
		next = when(*d.NextAttemptAt)
	}
	err := s.facts("event", d.EventID, "seq", seqOf(d), "path", string(d.Path), "type", d.Type,
		"state", deliveryState(d), "why", d.Explanation, "next attempt", next)
	if err != nil || len(d.Attempts) == 0 {
		return err
	}
	if err := s.say(""); err != nil {
		return err
	}
	return s.attemptTable(d.Attempts)
}

func (s *session) attemptTable(attempts []sluice.Attempt) error {
	rows := make([][]string, len(attempts))
	for i, a := range attempts {
		rows[i] = []string{
			attemptNumber(a), when(a.StartedAt), a.Duration.Std().Round(time.Microsecond).String(), string(a.Outcome),
			httpStatus(a.Status), orDash(a.Error), orDash(a.Response),
		}
	}
	return s.table("ATTEMPT | STARTED | DURATION | OUTCOME | STATUS | ERROR | RESPONSE", rows)
}
