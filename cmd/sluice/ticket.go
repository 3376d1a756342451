package main

import (
	"context"
	"time"
)

// ticketCmd gets a ticket for feeds.
type ticketCmd struct {
	NS  string        `name:"ns" help:"The namespace." default:"default"`
	For time.Duration `help:"For how long it opens feeds; 1s to 1h." default:"1m"`
}

// Run gets one.
func (c *ticketCmd) Run(ctx context.Context, s *session) error {
	if c.For <= 0 {
		return usagef("--for %s: write how long, such as 1m", c.For)
	}
	api, err := s.client()
	if err != nil {
		return err
	}
	ticket, err := api.FeedTicket(ctx, c.NS, c.For)
	if err != nil {
		return err
	}
	return s.show(ticket, func() error {
		s.complain("sluice: good until %s, for whoever has it", when(ticket.ExpiresAt))
		return s.say("%s", ticket.URL)
	})
}
