// Package status reports the state of a server for operators and load balancers: the usage of its
// store, its problems, and its readiness.
package status

import (
	"context"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Status reports the state of a server. All fields are required. Its methods are safe for
// concurrent use if theirs are.
type Status struct {
	// Usage returns used, limit and free bytes of the store.
	Usage func(ctx context.Context) (sluice.Storage, error)
	// Room reports how full the store is.
	Room interface {
		Level() sluice.StorageLevel
		Whole() error
	}
	// Memory reports the damage that was found in the store.
	Memory interface {
		Known() []sluice.Damage
		Missing() []string
		Problem() *sluice.Error
		Ready() error
	}
	Verification interface{ Now() sluice.Verification }
	Store        interface {
		Ready(ctx context.Context) error
	}
	Access interface{ Ready(now time.Time) error }
}

// Storage returns the usage of the store, with its level, damage and problem.
func (s Status) Storage(ctx context.Context) (sluice.Storage, error) {
	storage, err := s.Usage(ctx)
	storage.Level, storage.Damage, storage.Verification = s.Room.Level(), s.Memory.Known(), s.Verification.Now()
	storage.Missing, storage.Problem = s.Memory.Missing(), s.Problem()
	return storage, err
}

// Problem describes the problem of the store and its remedy; empty if there is none.
func (s Status) Problem() string {
	for _, problem := range []*sluice.Error{s.Room.Level().Problem(), s.Memory.Problem()} {
		if problem != nil {
			return problem.Message
		}
	}
	return ""
}

// Ready returns an error if requests cannot be served.
func (s Status) Ready(ctx context.Context) error {
	if err := s.Room.Whole(); err != nil {
		return err
	}
	if err := s.Store.Ready(ctx); err != nil {
		return err
	}
	if err := s.Memory.Ready(); err != nil {
		return err
	}
	return s.Access.Ready(time.Now())
}
