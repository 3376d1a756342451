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
	Sub     string `arg:"" help:"The subscription."`
	EventID string `arg:"" optional:"" name:"event-id" help:"Show the attempts at this event."`
	State   string `help:"In this state only: delivered, retrying or dead." placeholder:"STATE"`
	Since   string `help:"Of events after a sequence or a time." placeholder:"WHEN"`
	Limit   int    `help:"Show at most so many; 0: all." default:"100"`
}

// Run lists deliveries, or shows one.
func (c *deliveriesCmd) Run(ctx context.Context, s *session) error {
	api, err := s.client()
	if err != nil {
		return err
	}
	if c.EventID != "" {
		d, err := api.Delivery(ctx, c.Sub, c.EventID)
		if err != nil {
			return err
		}
		return s.show(d, func() error { return s.deliveryTable(d) })
	}
	all, err := collect(c.Limit, func(cursor string, most int) (client.Page[client.Delivery], error) {
		q := client.DeliveriesQuery{State: c.State, Since: c.Since, Limit: most, Cursor: cursor}
		return api.Deliveries(ctx, c.Sub, q)
	})
	if err != nil {
		return err
	}
	return s.show(all, func() error {
		rows := make([][]string, len(all))
		for i, d := range all {
			rows[i] = []string{
				strconv.FormatUint(d.Seq, 10), d.EventID, string(d.Path), d.Type, deliveryState(d), strconv.Itoa(d.AttemptCount),
				httpStatus(d.LastStatus), when(d.LastAttemptAt), orDash(d.LastError),
			}
		}
		return s.table("SEQ | EVENT | PATH | TYPE | STATE | ATTEMPTS | STATUS | LAST ATTEMPT | ERROR", rows)
	})
}

// attemptNumber returns the number of an attempt that counts.
func attemptNumber(a sluice.Attempt) string {
	if a.Probe {
		return "probe"
	}
	return strconv.Itoa(a.Number)
}

func deliveryState(d client.Delivery) string { return because(d.State, string(d.Reason)) }

func (s *session) deliveryTable(d client.Delivery) error {
	err := s.facts("event", d.EventID, "seq", strconv.FormatUint(d.Seq, 10), "path", string(d.Path), "type", d.Type,
		"state", deliveryState(d), "next attempt", maybeWhen(d.NextAttemptAt))
	if err != nil {
		return err
	}
	rows := make([][]string, len(d.Attempts))
	for i, a := range d.Attempts {
		rows[i] = []string{
			attemptNumber(a), when(a.StartedAt), a.Duration.Std().Round(time.Microsecond).String(), string(a.Outcome),
			httpStatus(a.Status), orDash(a.Error), orDash(a.Response),
		}
	}
	if err := s.say(""); err != nil {
		return err
	}
	return s.table("ATTEMPT | STARTED | DURATION | OUTCOME | STATUS | ERROR | RESPONSE", rows)
}
