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
	Event   func() (sluice.Event, error) // returns an error if the message is not an event; the event then has only its position
}

// Log reads the logs of namespaces.
type Log interface {
	// Follow calls each for the messages behind a sequence and then for new ones, in order, until
	// each returns an error, ctx ends or the log fails.
	Follow(ctx context.Context, namespace string, after uint64, each func(Message) error) error
	// Bounds returns the bounds of a log, read from the leader.
	Bounds(ctx context.Context, namespace string) (Bounds, error)
	// Subjects returns an empty set of filter subjects.
	Subjects() Subjects
	// Next returns up to limit messages of a filter subject from a sequence on, ascending, read
	// from the leader.
	Next(ctx context.Context, namespace, subject string, from uint64, limit int) ([]Message, error)
}

// Bounds are the sequences of the first stored message of a log and of the last one.
type Bounds struct {
	First, Last uint64
	Log         string // ID of the log: another one after it was restored, or deleted and created again
	Former      string // ID of the log in the backup from which it was restored; "": not restored
}

// Subjects is a set of values by filter subject. Only calls of Match may be concurrent.
type Subjects interface {
	Insert(filter string, value any) error
	Remove(filter string, value any) error
	Match(subject string, each func(value any)) // calls each for the values whose filter matches
	Count() uint32
}

// Position is how far the events of a subscription are settled or parked. The zero Position is that
// of a subscription with consumers of its own.
type Position struct {
	Shared   bool     // its events come from the shared reader
	Attached bool     // the shard's cursor counts for the events behind the floors
	Floors   []uint64 // by filter: all events up to here are settled or parked
	Open     Waits    // the first event in progress
	Next     Waits    // the first event behind those in progress that is known to be wanted
}

// Waits is an event that a subscription is known to wait for; the zero Waits is none. If the event
// leaves the log before it is delivered, that becomes a dead letter (decision 0003).
type Waits struct {
	Seq    uint64
	Filter int // index of the filter that matches its path
}

// Stored is the stored state of a subscription.
type Stored struct {
	Position
	Known bool // a position is stored
	New   bool // this process has just created it, and no other has served it
	Busy  bool // it has parked lanes, or its endpoint is in trouble
	Past  Past // past deliveries, if it is not busy; nil: unknown, the runner has to read them
}

// Past is the progress of a subscription's latest deliveries in earlier processes, by sequence.
type Past map[uint64]model.Progress

// Cursor is the sequence up to which a shard's events are settled or parked, with the revision of
// its record; 0: there is no record.
type Cursor struct {
	Seq      uint64
	Log      string // ID of the log that Seq is of; "": unknown, stored by an earlier build
	Revision uint64
}

// Records stores positions and cursors.
type Records interface {
	// Shard returns the shard of a subscription.
	Shard(id string) int
	// New returns the state of a subscription that this process has just created. It does so once;
	// for any other call it returns false.
	New(sub *sluice.Subscription) (Stored, bool)
	// Stored returns the stored state of a subscription.
	Stored(ctx context.Context, sub *sluice.Subscription) (Stored, error)
	// All reads the stored states of all subscriptions at once, with their past, and returns a
	// lookup.
	All(ctx context.Context) (func(sub *sluice.Subscription) Stored, error)
	// PutPosition stores a position and replaces any stored one.
	PutPosition(ctx context.Context, sub *sluice.Subscription, p Position) error
	// Adopt converts a subscription with consumers of its own: it stores and returns their
	// position, and deletes them.
	Adopt(ctx context.Context, sub *sluice.Subscription) (Position, error)
	// Cursor returns a shard's cursor.
	Cursor(ctx context.Context, namespace string, shard int) (Cursor, error)
	// PutCursor stores a cursor and returns it with its new revision. Code Conflict if the stored
	// revision is another one.
	PutCursor(ctx context.Context, namespace string, shard int, c Cursor) (Cursor, error)
}
