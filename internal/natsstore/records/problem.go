package records

import (
	"context"

	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/problem"
	"github.com/sluice-io/sluice/streams"
)

// Problems stores the problems of subscriptions.
type Problems struct {
	bucket natsstore.Bucket[problem.Record]
}

var _ problem.Store = Problems{}

// NewProblems returns the problems of a store.
func NewProblems(s *natsstore.Store) Problems {
	return Problems{natsstore.OpenBucket[problem.Record](s, streams.Problems)}
}

// Get returns a record and its revision.
func (p Problems) Get(ctx context.Context, id string) (problem.Record, uint64, error) {
	return p.bucket.Get(ctx, id)
}

// Put stores a record. Code Conflict unless the stored revision is the given one.
func (p Problems) Put(ctx context.Context, r problem.Record, revision uint64) error {
	_, err := p.bucket.Put(ctx, r.ID(), r, revision)
	return err
}

// Delete removes a record.
func (p Problems) Delete(ctx context.Context, id string, revision uint64) error {
	return p.bucket.Delete(ctx, id, revision)
}

// Follow calls tell for all records and their changes until ctx is done, with nil for a deleted
// one.
func (p Problems) Follow(ctx context.Context, tell func(id string, r *problem.Record)) error {
	return p.bucket.Watch(ctx, ">", func(e natsstore.Entry[problem.Record]) {
		switch e.Change {
		case natsstore.Set:
			tell(e.Key, &e.Value)
		case natsstore.Removed:
			tell(e.Key, nil)
		case natsstore.CaughtUp:
		}
	})
}
