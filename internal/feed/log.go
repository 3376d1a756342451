package feed

import (
	"context"
	"math"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Log is a namespace's events, in their order.
type Log interface {
	// Ends returns the first and the last sequence that is kept, as the leader knows them. Code NotFound.
	Ends(ctx context.Context, namespace string) (first, last uint64, err error)
	// Made returns when the log was made: another one under the same name has another time. Code NotFound.
	Made(ctx context.Context, namespace string) (time.Time, error)
	// Page returns events behind a place whose paths a pattern may match, and up to where there are no others; that
	// is upTo at least, unless there are more than a page has. The log reached upTo before. Code WindowExceeded, with
	// oldest_available_seq and current_seq, if what comes behind the place is no longer kept.
	Page(ctx context.Context, namespace string, pattern sluice.Pattern, after, upTo uint64) (events []sluice.Event, reached uint64, err error)
	// Tail calls each for the events behind a place and then as they come, until it returns an error, ctx ends or
	// there is trouble.
	Tail(ctx context.Context, namespace string, after uint64, each func(sluice.Event) error) error
	// Place returns the sequence behind which a cursor lies. Codes NotFound; WindowExceeded.
	Place(ctx context.Context, namespace, cursor string) (uint64, error)
}

// lastSeq is behind every sequence.
const lastSeq = math.MaxUint64
