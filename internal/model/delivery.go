package model

import (
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Delivery is one event for one subscription, fetched and not yet acknowledged.
type Delivery struct {
	Event       sluice.Event
	Err         error // why the event cannot be read; Event then has only its position
	Redelivered bool  // fetched before
	Receipt     Receipt
}

// ReadEvent is an event that was read from the log again.
type ReadEvent struct {
	sluice.Event

	Err error // why the message cannot be decoded; Event then has its data unchanged, and must not be sent
}

// Receipt acknowledges one delivery to the log. Both calls return immediately and are safe to
// repeat; a lost acknowledgement leads to a redelivery.
type Receipt interface {
	Ack() error  // the delivery is settled, or recorded in its lane
	Hold() error // the delivery is still in progress: do not redeliver it
}

// Progress is the state of a delivery in the attempt log.
type Progress struct {
	EventID     string
	Settled     bool
	Delivered   bool
	Dead        bool // it was given up, and has a dead letter
	Attempts    int
	FirstFailed time.Time

	// SupersedesFrom, with a debounce, is the first sequence of the earlier events on the path that
	// this event replaces.
	SupersedesFrom uint64
	Path           sluice.Path // with SupersedesFrom
}

// ParkedEntry is a parked lane with the revision of its record.
type ParkedEntry struct {
	sluice.Parked

	Revision uint64
}
