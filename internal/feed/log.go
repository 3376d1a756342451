package feed

import (
	"context"
	"math"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Log reads a namespace's events, in order.
type Log interface {
	// Ends returns the first and the last stored sequence, from the leader. Code NotFound.
	Ends(ctx context.Context, namespace string) (first, last uint64, err error)
	// Incarnation returns the ID of the log: another one of the same name has another ID. Code
	// NotFound.
	Incarnation(ctx context.Context, namespace string) (string, error)
	// Page returns events behind a place on paths that a pattern may match, and the sequence up to
	// which there are no others: at least upTo, unless a page is full. The log has reached upTo.
	// Code WindowExceeded, with oldest_available_seq and current_seq, if the next events are no
	// longer stored.
	Page(ctx context.Context, namespace string, pattern sluice.Pattern, after, upTo uint64) (events []sluice.Event, reached uint64, err error)
	// Tail calls each for the events behind a place and then for new ones, until each returns an
	// error, ctx ends or the log fails.
	Tail(ctx context.Context, namespace string, after uint64, each func(sluice.Event) error) error
	// Place returns the sequence of a cursor. Codes NotFound; WindowExceeded.
	Place(ctx context.Context, namespace, cursor string) (uint64, error)
}

// lastSeq is behind every sequence.
const lastSeq = math.MaxUint64
