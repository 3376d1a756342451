package model

import (
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Scheduled is an event that is stored in its namespace's log at a set time, unless it is cancelled
// before.
type Scheduled struct {
	sluice.Creator

	Event     sluice.Event
	DeliverAt time.Time
	Claim     *sluice.Claim // nil: storing has not begun
	// Outcome is how it ended without being stored: OutcomeCancelled, or a Code; "" if it has not
	// ended.
	Outcome  string
	EndedBy  sluice.Principal // the principal that cancelled it
	Revision uint64
}

// ScheduledPlace is the position in a list of scheduled events: after the event with this time and
// ID.
type ScheduledPlace struct {
	At time.Time
	ID string
}
