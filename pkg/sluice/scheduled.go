package sluice

import "time"

// AttributeDeliverAt is the extension attribute with the time at which to store an event, in RFC
// 3339.
const AttributeDeliverAt = "deliverat"

// Claim records that a replica is storing a due event.
type Claim struct {
	By    string    `json:"by"`    // replica
	Since time.Time `json:"since"` // when the first try started that may have stored the event
	At    time.Time `json:"at"`
	Tries int       `json:"tries"`

	// Idle is when the last try failed, with nothing in flight until the next one; zero: a try is
	// in flight.
	Idle time.Time `json:"idle,omitzero"`
	Sent bool      `json:"sent,omitempty"` // a failed try may have stored the event
}

// OutcomeCancelled is the outcome of a cancelled event.
const OutcomeCancelled = "cancelled"

// TellsDeliverAt returns the time at which the event is to be stored; false if the event has none.
// Code InvalidRequest if the attribute is not a time.
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
