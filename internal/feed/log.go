package feed

import (
	"context"
	"math"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Log reads a namespace's events, in order.
type Log interface {
	// Ends returns the first and the last stored sequence, read from the leader. Code NotFound.
	Ends(ctx context.Context, namespace string) (first, last uint64, err error)
	// Incarnation returns the ID of the log. Another log of the same name has another ID. Code
	// NotFound.
	Incarnation(ctx context.Context, namespace string) (string, error)
	// Page returns events behind the sequence after, among them all on paths that match the pattern
	// up to the sequence reached. That is at least upTo, unless the page is full. The log must have
	// reached upTo. Code WindowExceeded, with oldest_available_seq and current_seq, if the next
	// events are no longer stored.
	Page(ctx context.Context, namespace string, pattern sluice.Pattern, after, upTo uint64) (events []sluice.Event, reached uint64, err error)
	// Tail calls each for the events behind a sequence and then for new ones, until each returns an
	// error, ctx ends or the log fails.
	Tail(ctx context.Context, namespace string, after uint64, each func(sluice.Event) error) error
	// Place returns the sequence of a cursor. Codes NotFound; WindowExceeded.
	Place(ctx context.Context, namespace, cursor string) (uint64, error)
}

// lastSeq is at least every sequence.
const lastSeq = math.MaxUint64
