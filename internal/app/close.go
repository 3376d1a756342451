package app

import (
	"context"
	"errors"
	"log/slog"
	"sync"
)

// await waits for components until the shutdown deadline.
func (s *server) await(parts *sync.WaitGroup) {
	_ = s.deadline.Do("components of the server", func() error {
		parts.Wait()
		return nil
	})
}

// close stops the components, at the latest at the shutdown deadline, and returns an error that
// lists unfinished work.
func (s *server) close(ctx context.Context) error {
	s.deadline.Begin()
	defer s.deadline.Close()
	var errs []error
	if s.sender != nil {
		s.sender.Close()
	}
	errs = append(errs, s.tracing.Close(s.deadline.Closing())) //nolint:contextcheck // ctx has no end; this is the end of the shutdown
	if s.store != nil {
		errs = append(errs, s.deadline.Do("connections to NATS", func() error {
			s.store.Close()
			return nil
		}))
	}
	if s.nats != nil {
		errs = append(errs, s.deadline.Do("embedded NATS servers", s.nats.Shutdown))
	}
	if s.lock != nil {
		errs = append(errs, s.lock.Unlock())
	}
	if left := s.deadline.Left(); left != "" {
		s.opts.Log.WarnContext(ctx, "stopped before all writes finished: NATS did not respond in time. Nothing is lost: unrecorded deliveries are sent again after the next start",
			slog.Duration("shutdown_grace", s.cfg.ShutdownGrace.Std()), slog.String("left", left))
	}
	return errors.Join(errs...)
}
