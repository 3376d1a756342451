package fanout

import (
	"context"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Message is a message of a log.
type Message struct {
	Subject string
	Seq     uint64
	Event   func() (sluice.Event, error) // an error if it is no event, which then has only its position
}

// Log reads the logs of namespaces.
type Log interface {
	// Follow calls each for the messages behind a sequence and then for new ones, in order, until
	// each returns an error, ctx ends or the log fails.
	Follow(ctx context.Context, namespace string, after uint64, each func(Message) error) error
	// Bounds returns the sequences of the first stored message and of the last one, from the leader.
	Bounds(ctx context.Context, namespace string) (first, last uint64, err error)
	// Subjects returns an empty set of filter subjects.
	Subjects() Subjects
	// Next returns up to limit messages of a filter subject from a sequence on, ascending; none if
	// the leader has none.
	Next(ctx context.Context, namespace, subject string, from uint64, limit int) ([]Message, error)
}

// Subjects is a set of values by filter subject. Of its methods only Match may be called at the same
// time.
type Subjects interface {
	Insert(filter string, value any) error
	Remove(filter string, value any) error
	Match(subject string, each func(value any)) // calls each for the values whose filter matches
	Count() uint32
}

// Position is how far the events of a subscription are accounted for. The zero Position is one
// with consumers of its own.
type Position struct {
	Shared   bool     // its events come from the shared reader
	Attached bool     // the shard's cursor accounts for the events behind the floors
	Floors   []uint64 // by filter: all events up to here are settled or parked
	Open     Waits    // the first event in progress
	Next     Waits    // the first one behind those in progress
}

// Waits is an event that a subscription is known to wait for; the zero Waits is none. If it leaves the
// log first, that becomes a dead letter (decision 0003).
type Waits struct {
	Seq    uint64
	Filter int // that matches its path
}

// Stored is what is stored about a subscription.
type Stored struct {
	Position
	Known bool // there is a position
	New   bool // this process has just created it: no other has served it
	Busy  bool // it has parked lanes, or its endpoint is in trouble
	Past  Past // of one that is not busy; nil: it has to be asked for
}

// Past is how far the latest deliveries of a subscription came in earlier processes, by sequence.
type Past map[uint64]model.Progress

// Cursor is up to where a shard's events are accounted for, with the revision of its record; 0: there
// is none.
type Cursor struct {
	Seq      uint64
	Revision uint64
}

// Records keeps positions and cursors.
type Records interface {
	// Shard returns the shard of a subscription.
	Shard(id string) int
	// New returns what is stored about a subscription that this process has just created, once, and
	// false for another one.
	New(sub *sluice.Subscription) (Stored, bool)
	// Stored returns what is stored about a subscription.
	Stored(ctx context.Context, sub *sluice.Subscription) (Stored, error)
	// All returns Stored for all subscriptions, from one reading, with their past.
	All(ctx context.Context) (func(sub *sluice.Subscription) Stored, error)
	// PutPosition stores a position over any other.
	PutPosition(ctx context.Context, sub *sluice.Subscription, p Position) error
	// Adopt stores and returns the position of a subscription that had consumers of its own, which
	// it deletes.
	Adopt(ctx context.Context, sub *sluice.Subscription) (Position, error)
	// Cursor returns a shard's cursor.
	Cursor(ctx context.Context, namespace string, shard int) (Cursor, error)
	// PutCursor stores a cursor and returns it with its new revision. Code Conflict if the stored
	// revision is another one.
	PutCursor(ctx context.Context, namespace string, shard int, c Cursor) (Cursor, error)
}
