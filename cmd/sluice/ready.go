package main

import (
	"context"
	"fmt"
	"time"

	"github.com/sluice-io/sluice/internal/terminal"
)

// readyInterval is the time between two checks of a server that is not ready.
const readyInterval = 200 * time.Millisecond

// readyTimeout is how long a server may take to answer one check.
const readyTimeout = 2 * time.Second

// readyCmd checks the readiness of a server, for containers and scripts.
type readyCmd struct {
	Wait time.Duration `help:"Repeat for this long until the server is ready." placeholder:"60s"`
}

// Help explains the status.
func (*readyCmd) Help() string {
	return "Exits with status 0 if the server is ready, and 1 if it is not: as GET /readyz, without a token. It is the health check of a container without curl."
}

// Run checks once, or until the server is ready or the time has passed. --wait 0 checks once. The
// last error is printed when the time has passed. The last check can end up to readyInterval and
// readyTimeout later.
func (c *readyCmd) Run(ctx context.Context, s *terminal.Session) error {
	before := time.Now()
	for {
		err := c.check(ctx, s)
		if err == nil {
			return s.Show(map[string]bool{"ok": true}, func() error { return s.Say("ready") })
		}
		if time.Since(before) >= c.Wait {
			return fmt.Errorf("not ready: %w", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(readyInterval):
		}
	}
}

// check checks once. It reads the address each time, because a starting server writes it late.
func (c *readyCmd) check(ctx context.Context, s *terminal.Session) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	server, err := s.Address()
	if err != nil {
		return err
	}
	api, err := s.ClientOf(server, "")
	if err != nil {
		return err
	}
	_, err = api.Ready(ctx)
	return s.WithAdvice(err)
}
