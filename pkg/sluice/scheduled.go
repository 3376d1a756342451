package sluice

import "time"

// AttributeDeliverAt is the extension attribute that says when an event is to be stored; RFC 3339.
const AttributeDeliverAt = "deliverat"

// Scheduled is an event that is stored in its namespace's log at a time, unless it is cancelled before.
type Scheduled struct {
	Creator

	Event     Event
	DeliverAt time.Time
	Claim     *Claim    // nil: nobody has begun to store it
	Outcome   string    // how it ended without being stored: OutcomeCancelled, or a Code; "": it has not
	EndedBy   Principal // who cancelled it
	Revision  uint64
}

// ScheduledPlace is where a list of scheduled events goes on: behind the one with this time and id.
type ScheduledPlace struct {
	At time.Time
	ID string
}

// Claim says that a replica is storing an event that is due.
type Claim struct {
	By    string    `json:"by"`    // replica
	Since time.Time `json:"since"` // when the first one did
	At    time.Time `json:"at"`
	Tries int       `json:"tries"`

	Idle time.Time `json:"idle,omitzero"`  // when the last try failed: nothing is under way until the next one; zero: it is
	Sent bool      `json:"sent,omitempty"` // a try that failed may have stored it
}

// OutcomeCancelled is the outcome of what somebody cancelled.
const OutcomeCancelled = "cancelled"

// TellsDeliverAt returns when the event says that it is to be stored, and false if it says nothing. Code InvalidRequest
// if what it says is no time.
func (e *Event) TellsDeliverAt() (time.Time, bool, error) {
	text, ok := e.Extensions[AttributeDeliverAt]
	if !ok {
		return time.Time{}, false, nil
	}
	at, err := ParseTime(text)
	if err != nil {
		return time.Time{}, false, Errorf(InvalidRequest, "%s %q: write a time such as 2026-01-31T08:00:00Z", AttributeDeliverAt, clip(text)).With("field", AttributeDeliverAt)
	}
	return at, true, nil
}
