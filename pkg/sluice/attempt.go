package sluice

import (
	"encoding/json"
	"fmt"
	"time"
)

// Outcome is what came of an attempt.
type Outcome string

// The outcomes.
const (
	Delivered Outcome = "delivered" // a 2xx
	Failed    Outcome = "failed"    // any other status, a timeout, a network error
	Gone      Outcome = "gone"      // a 410
	Refused   Outcome = "refused"   // never sent: its address is blocked, its request cannot be made
)

// Attempt is one try of one delivery, numbered from 1.
type Attempt struct {
	Subscription string        `json:"subscription"`
	EventID      string        `json:"event_id"`
	Seq          uint64        `json:"seq"`
	Path         Path          `json:"path"`
	Type         string        `json:"type"`
	Number       int           `json:"number"`
	Probe        bool          `json:"probe,omitempty"` // it failed and is not counted: the endpoint was in trouble; the next one has its number
	StartedAt    time.Time     `json:"started_at"`
	Duration     Duration      `json:"duration"`
	Outcome      Outcome       `json:"outcome"`
	Status       int           `json:"status,omitempty"` // of the response; 0: there was none
	Error        string        `json:"error,omitempty"`
	Response     string        `json:"response,omitempty"`     // the first KiB of the body, when it failed
	PayloadHash  string        `json:"payload_hash,omitempty"` // sha256 of the request's body, hex
	Replay       string        `json:"replay,omitempty"`       // the replay that it belongs to; numbers begin anew there
	RetryAfter   time.Duration `json:"-"`                      // what the response asked for
	Dead         Reason        `json:"-"`                      // with Refused: why; empty: NotSendable

	FirstFailedAt time.Time `json:"-"` // of the delivery, this attempt included; for its dead letter

	Verdict Verdict `json:"verdict"`
}

// Verdict is what an attempt's outcome means: settled, again at a time, dead, or held. At most one is set.
type Verdict struct {
	Settled bool      `json:"settled,omitempty"`
	Again   time.Time `json:"again,omitzero"`
	Dead    Reason    `json:"dead,omitempty"`
	Held    Reason    `json:"held,omitempty"`   // it would be dead; its lane waits for somebody to decide
	Cancel  bool      `json:"cancel,omitempty"` // the endpoint is gone: the subscription ends
}

// Final reports whether the delivery is over: nothing more is sent of it, whoever asks.
func (v Verdict) Final() bool { return v.Again.IsZero() && v.Held == "" }

// Reason is why a delivery was given up.
type Reason string

// The reasons.
const (
	Exhausted     Reason = "exhausted"     // no attempt is left
	Expired       Reason = "expired"       // the event aged out of the log before it could be sent
	NotSendable   Reason = "refused"       // the request could not be made
	EndpointGone  Reason = "endpoint_gone" // a 410 ended the subscription
	EventTooLarge Reason = "too_large"     // the request would be larger than the server sends
	FilterError   Reason = "filter_error"  // the filter could not be evaluated
	Malformed     Reason = "invalid"       // the event cannot be read
	Loop          Reason = "loop"          // the event came of itself, or its producer is marked for that
)

// Reasons returns all reasons.
func Reasons() []Reason {
	return []Reason{Exhausted, Expired, NotSendable, EndpointGone, EventTooLarge, FilterError, Malformed, Loop}
}

// Parked is a lane that waits for its head's next attempt: "this lane, from that sequence on".
// While it exists, events of the lane are acknowledged as they come and read back later.
type Parked struct {
	Lane          string    `json:"lane"`
	Path          Path      `json:"path,omitempty"` // empty for a lane that is the whole subscription
	FromSeq       uint64    `json:"from_seq"`
	EventID       string    `json:"event_id,omitempty"` // of the event at FromSeq, if it was seen
	Attempts      int       `json:"attempts"`           // of the event at FromSeq so far
	NextAt        time.Time `json:"next_at,omitzero"`   // zero: at once, unless it is held
	FirstFailedAt time.Time `json:"first_failed_at,omitzero"`
	LastError     string    `json:"last_error,omitempty"`
	Held          Reason    `json:"held,omitempty"` // why its head was given up: it waits for a retry or a discard, not for a time
	HeldAt        time.Time `json:"held_at,omitzero"`
}

// Since returns when the lane's head failed first, or was held without an attempt; zero if neither.
func (p *Parked) Since() time.Time {
	if p.FirstFailedAt.IsZero() {
		return p.HeldAt
	}
	return p.FirstFailedAt
}

// DeadLetter is a delivery that was given up. There is one at most for each delivery: one that
// is given up again, after it was redriven, has the later one.
type DeadLetter struct {
	Subscription string `json:"subscription"`
	Namespace    string `json:"namespace"`
	EventID      string `json:"event_id"` // empty if the event was never seen
	Seq          uint64 `json:"seq"`
	LastSeq      uint64 `json:"last_seq,omitempty"` // with Expired: the end of the range that is lost
	Path         Path   `json:"path"`
	Attempts     int    `json:"attempts"`
	Reason       Reason `json:"reason"`
	LastError    string `json:"last_error,omitempty"`
	LastStatus   int    `json:"last_status,omitempty"` // of the last response; 0: there was none

	FirstFailedAt time.Time `json:"first_failed_at,omitzero"` // zero: there was no attempt
	At            time.Time `json:"at"`
	Replay        string    `json:"replay,omitempty"` // that gave it up
	Event         *Event    `json:"event,omitempty"`  // if it is known
}

// Redrivable reports whether the delivery can be tried again: its event is known and can be
// read.
func (d *DeadLetter) Redrivable() bool {
	return d.Event != nil && d.Reason != Expired && d.Reason != Malformed
}

// AppendJSON appends the dead letter as JSON. Unlike json.Marshal it leaves the event's data
// byte for byte what it is.
func (d *DeadLetter) AppendJSON(b []byte) ([]byte, error) {
	bare := *d
	bare.Event = nil
	data, err := json.Marshal(bare)
	if err != nil {
		return b, fmt.Errorf("dead letter: %w", err)
	}
	return d.AppendEvent(append(b, data...)), nil
}

// AppendEvent adds the event, if it is known, to the JSON object that b ends with.
func (d *DeadLetter) AppendEvent(b []byte) []byte {
	if d.Event == nil {
		return b
	}
	b = append(b[:len(b)-1], `,"event":`...)
	return append(d.Event.AppendJSON(b), '}')
}

// BuriedLetter is a dead letter with its place among the dead letters of all subscriptions.
type BuriedLetter struct {
	DeadLetter

	LetterSeq uint64
}

// Status is how a subscription is doing.
type Status struct {
	State         State      `json:"state"`
	Reason        string     `json:"reason,omitempty"`
	Backlog       uint64     `json:"backlog"`     // events that were not looked at yet or are under way; those of parked lanes are not among them
	Undelivered   uint64     `json:"undelivered"` // Backlog and all that waits in the parked lanes of ParkedLanes, heads included
	InFlight      int        `json:"in_flight"`   // handed out and not settled
	Parked        int        `json:"parked"`      // lanes
	Held          int        `json:"held"`        // those of them that wait for a retry or a discard
	AckFloor      uint64     `json:"ack_floor"`   // every event up to here is settled or parked
	LagSeconds    float64    `json:"lag_seconds"` // age of the oldest event that waits
	Breaker       Breaker    `json:"breaker"`
	NextAttemptAt *time.Time `json:"next_attempt_at"` // the next probe, while the breaker is open; null: none is due at a time
	DeadLetters   uint64     `json:"dead_letters"`
	ParkedLanes   []Parked   `json:"parked_lanes"` // the first hundred by next_at, held ones last

	SourceError string `json:"source_error,omitempty"` // nothing is delivered: the events cannot be read from the log, and why

	Consumers map[WakeState]int `json:"consumers,omitempty"` // mode wake: how many are in which state; there is nothing else to count there
}
