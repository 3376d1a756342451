package app

import (
	"context"
	"errors"
	"log/slog"
	"sync"
)

// await waits for parts until the deadline of the shutdown.
func (s *server) await(parts *sync.WaitGroup) {
	_ = s.deadline.Do("parts of the server", func() error {
		parts.Wait()
		return nil
	})
}

// close ends the parts, at the deadline at the latest, and says what could not be finished by then.
func (s *server) close(ctx context.Context) error {
	s.deadline.Begin()
	defer s.deadline.Close()
	var errs []error
	if s.sender != nil {
		s.sender.Close()
	}
	if s.tracing != nil {
		errs = append(errs, s.tracing.close(s.deadline.Closing())) //nolint:contextcheck // ctx has no end; this is the end of the shutdown
	}
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
		s.opts.Log.WarnContext(ctx, "ended before all was written: NATS did not answer in time. Nothing is lost: what was sent and not recorded is sent again after the next start",
			slog.Duration("shutdown_grace", s.cfg.ShutdownGrace.Std()), slog.String("left", left))
	}
	return errors.Join(errs...)
}
