package subscriptioncmd

import (
	"context"

	"github.com/sluice-io/sluice/internal/terminal"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

type subProbeCmd struct {
	ID string `arg:"" help:"Subscription."`
}

// Run makes an open breaker probe its endpoint now. Code Conflict unless the subscription is
// active.
func (c *subProbeCmd) Run(ctx context.Context, s *terminal.Session) error {
	return actOn(ctx, s, func(api *client.Client) (sluice.Replay, error) { return api.ProbeSubscription(ctx, c.ID) })
}

type subRetryCmd struct {
	ID string `arg:"" help:"Subscription."`
}

// Run retries all parked lanes. Held lanes begin again at attempt 1, and an open breaker probes.
// Code Conflict unless the subscription is active.
func (c *subRetryCmd) Run(ctx context.Context, s *terminal.Session) error {
	return actOn(ctx, s, func(api *client.Client) (sluice.Replay, error) { return api.RetryLanes(ctx, c.ID) })
}

// actOn performs an act on a subscription, and prints how it ended. An act is a replay on the
// server: one that is repeated while it runs is the same replay. A cancelled act, as by a seek
// meanwhile, is an error.
func actOn(ctx context.Context, s *terminal.Session, act func(*client.Client) (sluice.Replay, error)) error {
	api, err := s.Client()
	if err != nil {
		return err
	}
	rep, err := act(api)
	if err == nil {
		rep, err = waitForReplay(ctx, s, api, rep)
	}
	if err != nil {
		return err
	}
	return showEnded(s, rep, func() error { return s.Say("%s: %s.", rep.Subscription, rep.Reason) })
}
