package sluice

import "time"

// Delivery is one event on its way to one subscription, handed out and not yet acknowledged.
type Delivery struct {
	Event       Event
	Err         error // why the event cannot be read; Event then has only its place
	Redelivered bool  // handed out before
	Receipt     Receipt
}

// Receipt answers the log for one delivery. Both calls return at once and are safe to repeat;
// a lost answer leads to a redelivery.
type Receipt interface {
	Ack() error  // it is settled, or its lane's record holds it
	Hold() error // it is still being worked on: do not hand it out again
}

// Progress is how far a delivery had come when the attempt log was last written.
type Progress struct {
	EventID     string
	Settled     bool
	Attempts    int
	FirstFailed time.Time
}

// ParkedEntry is a parked lane with the revision of its record.
type ParkedEntry struct {
	Parked

	Revision uint64
}
