package main

import (
	"context"
	"time"
)

// ticketCmd gets a ticket for feeds.
type ticketCmd struct {
	NS  string        `name:"ns" help:"Namespace." default:"default"`
	For time.Duration `help:"Validity of the ticket; 1s to 1h." default:"1m"`
}

// Run gets one.
func (c *ticketCmd) Run(ctx context.Context, s *session) error {
	if c.For <= 0 {
		return usagef("--for %s: write a duration, such as 1m", c.For)
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
		s.complain("sluice: valid until %s, for any holder", when(ticket.ExpiresAt))
		return s.say("%s", ticket.URL)
	})
}
