package app

import (
	"context"
	"time"

	"github.com/sluice-io/sluice/internal/capacity"
	"github.com/sluice-io/sluice/internal/datadir"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/natsd"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Intervals of checking the free space; an embedded server is asked within the process.
const (
	roomEvery    = 250 * time.Millisecond
	roomEveryFar = 5 * time.Second
)

// openRoom constructs the component that keeps the store within its capacity.
func (s *server) openRoom(context.Context) error {
	opts := capacity.Options{Usage: s.usage, Every: roomEveryFar, Store: s.store, Log: s.opts.Log}
	if s.nats != nil {
		opts.Every, opts.Disk = roomEvery, s.nats
	} else {
		opts.Refuses = s.store.RefusesAll
	}
	s.room = capacity.New(opts)
	return nil
}

// usage returns the storage usage and its limit: for an embedded server its own limit and the free
// disk space, otherwise the account's limit, or the operator's if that is less.
func (s *server) usage(ctx context.Context) (sluice.Storage, error) {
	if s.nats == nil {
		storage, err := s.store.Storage(ctx)
		if most := uint64(max(s.cfg.NATS.MaxStore, 0)); most > 0 && (storage.LimitBytes == 0 || most < storage.LimitBytes) {
			storage.LimitBytes = most
		}
		return storage, err
	}
	used, limit, err := s.nats.Storage()
	storage := sluice.Storage{UsedBytes: used, LimitBytes: limit}
	if free, err := natsd.Free(datadir.NATS(s.cfg.Data)); err == nil {
		storage.FreeBytes = &free
	}
	return storage, err
}

// storage is usage with the derived level and problem.
func (s *server) storage(ctx context.Context) (sluice.Storage, error) {
	storage, err := s.usage(ctx)
	storage.Level, storage.Damage, storage.Verification = s.room.Level(), s.memory.Known(), s.verification.Now()
	storage.Missing, storage.Problem = s.memory.Missing(), s.problem()
	return storage, err
}

// problem describes the problem of the store and its remedy; empty if there is none.
func (s *server) problem() string {
	for _, problem := range []*sluice.Error{s.room.Level().Problem(), model.MissingProblem(s.memory.Missing())} {
		if problem != nil {
			return problem.Message
		}
	}
	return ""
}
