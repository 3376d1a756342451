package app

import (
	"context"
	"time"
)

// open constructs the components. It waits for an external store until ctx ends, so that a server
// can be started together with its NATS cluster. An embedded store has a time limit.
func (s *server) open(ctx context.Context) error {
	begin := []func(context.Context) error{s.web.LoadTLS, s.openNATS, s.forget}
	rest := []func(context.Context) error{
		s.openRoom, s.openSender, s.openRegistry, s.openReports, s.openAccess, s.openModules, s.openEngine, s.openWakes, s.openFeeds, s.openLater, s.openAppointments, s.openWatches, s.openMirrors, s.openKnowledge, s.openAPI,
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
