package records

import (
	"context"
	"time"

	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/rollup"
	"github.com/sluice-io/sluice/streams"
)

// How long blocks of minutes and of hours are stored: the hour and the day that are shown, and a margin.
const (
	keepMinutes = 70 * time.Minute
	keepHours   = 26 * time.Hour
)

// Rollups stores the statistics of attempts.
type Rollups struct {
	bucket natsstore.Bucket[rollup.Block]
}

var _ rollup.Store = Rollups{}

// NewRollups returns the statistics of a store.
func NewRollups(s *natsstore.Store) Rollups {
	return Rollups{natsstore.OpenBucket[rollup.Block](s, streams.Rollups)}
}

// Put stores a block, and replaces any other with the key. It disappears by itself, after
// keepMinutes or keepHours.
func (r Rollups) Put(ctx context.Context, key string, b rollup.Block) error {
	keep := keepMinutes
	if b.Hour > 0 {
		keep = keepHours
	}
	_, err := r.bucket.PutFor(ctx, key, b, keep)
	return err
}

// Follow calls tell for the stored blocks and new ones, until ctx is done. The end of a block is
// not reported.
func (r Rollups) Follow(ctx context.Context, tell func(key string, b *rollup.Block)) error {
	return r.bucket.Watch(ctx, ">", func(e natsstore.Entry[rollup.Block]) {
		if e.Change == natsstore.Set {
			tell(e.Key, &e.Value)
		}
	})
}
