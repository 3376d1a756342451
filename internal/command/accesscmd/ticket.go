package accesscmd

import (
	"context"
	"time"

	"github.com/sluice-io/sluice/internal/terminal"
)

// TicketCmd gets a ticket for feeds.
type TicketCmd struct {
	NS  string        `name:"ns" help:"Namespace." default:"default" env:"SLUICE_NS"`
	For time.Duration `help:"Validity of the ticket; 1s to 1h." default:"1m"`
}

// Run gets a ticket. The printed URL opens feeds with the rights of the caller until it expires. It
// is on stdout alone, the warning on stderr.
func (c *TicketCmd) Run(ctx context.Context, s *terminal.Session) error {
	if c.For <= 0 {
		return terminal.Usagef("--for %s: write a duration, such as 1m", c.For)
	}
	api, err := s.Client()
	if err != nil {
		return err
	}
	ticket, err := api.FeedTicket(ctx, c.NS, c.For)
	if err != nil {
		return err
	}
	return s.Show(ticket, func() error {
		s.Complain("sluice: valid until %s, for any holder", terminal.FormatTime(ticket.ExpiresAt))
		return s.Say("%s", ticket.URL)
	})
}
