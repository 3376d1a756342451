package app

import (
	"context"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/sluice-io/sluice/internal/natsstore"
)

// open constructs the components. It waits for an external store until ctx ends, so that a server
// can be started together with its NATS cluster. An embedded store has a time limit.
func (s *server) open(ctx context.Context) error {
	begin := []func(context.Context) error{s.web.LoadTLS, s.openNATS, s.forget}
	rest := []func(context.Context) error{
		s.openRoom, s.openSender, s.openRegistry, s.hold, s.openEngine, s.openWakes, s.openTrust, s.openFeeds, s.openLater, s.openAppointments, s.openWatches, s.openAPI,
	}
	if err := within(ctx, readyLimit, begin); err != nil {
		return err
	}
	if err := s.openStore(ctx); err != nil {
		return err
	}
	if s.nats != nil {
		return within(ctx, readyLimit, rest)
	}
	for _, step := range rest {
		if err := s.patiently(ctx, step); err != nil {
			return err
		}
	}
	return nil
}

// patiently runs a step that can be repeated. With an external store, transient errors are retried
// until ctx ends: a cluster that has just started elects its leaders one after the other, and
// requests in the meantime get no response.
func (s *server) patiently(ctx context.Context, step func(context.Context) error) error {
	if s.nats != nil {
		return step(ctx)
	}
	wait := backoff.NewExponentialBackOff(backoff.WithInitialInterval(startAgain), backoff.WithMaxInterval(startAgainMost), backoff.WithMaxElapsedTime(0))
	return backoff.RetryNotify(func() error {
		err := step(ctx)
		if err == nil || natsstore.IsTransient(err) {
			return err
		}
		return backoff.Permanent(err)
	}, backoff.WithContext(wait, ctx), func(err error, again time.Duration) {
		s.opts.Log.WarnContext(ctx, "not started yet", slog.Any("error", err), slog.Duration("again", again))
	})
}

// within runs the steps in order.
func within(ctx context.Context, limit time.Duration, steps []func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}
