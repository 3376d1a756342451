package sluice

import (
	"encoding/json"
	"fmt"
	"iter"
	"time"
)

// Outcome is the result of an attempt.
type Outcome string

// The outcomes.
const (
	Delivered Outcome = "delivered" // a 2xx
	Failed    Outcome = "failed"    // any other status, a timeout, a network error
	Gone      Outcome = "gone"      // a 410
	Refused   Outcome = "refused"   // never sent: its address is blocked, or its request cannot be created
)

// Attempt is one attempt of one delivery, numbered from 1.
type Attempt struct {
	Subscription string `json:"subscription"`
	EventID      string `json:"event_id"`
	Seq          uint64 `json:"seq"`
	Path         Path   `json:"path"`
	Type         string `json:"type"`
	Number       int    `json:"number"`
	// Probe: the attempt failed while the endpoint was down, and does not count. The next attempt
	// has the same number.
	Probe     bool      `json:"probe,omitempty"`
	StartedAt time.Time `json:"started_at"`
	Duration  Duration  `json:"duration"`
	Outcome   Outcome   `json:"outcome"`
	Status    int       `json:"status,omitempty"` // status of the response; 0: no response
	Error     string    `json:"error,omitempty"`
	// Class is the kind of failure; empty: the attempt delivered, or an earlier release recorded
	// it.
	Class FailureClass `json:"class,omitempty"`
	// Response is the first KiB of the response body of a failed attempt.
	Response string `json:"response,omitempty"`
	// Output is the first 64 KiB of what a module's program wrote.
	Output string `json:"output,omitempty"`
	// Published is the number of events that a module's program printed and that were published.
	Published int `json:"published,omitempty"`
	// PayloadHash is the hex-encoded SHA-256 hash of the request body.
	PayloadHash string `json:"payload_hash,omitempty"`
	// Batch lists all events of the request in order, if there are several. The fields above
	// describe the first one.
	Batch []EventRef `json:"batch,omitempty"`
	// SupersedesFrom, with a debounce, is the first sequence of the earlier events on the path that
	// the event replaced.
	SupersedesFrom uint64 `json:"supersedes_from,omitempty"`
	// Replay is the replay that the attempt belongs to. Attempts are numbered from 1 within it.
	Replay     string        `json:"replay,omitempty"`
	RetryAfter time.Duration `json:"-"` // Retry-After of the response
	Dead       Reason        `json:"-"` // with Refused: the reason; empty means NotSendable

	// FirstFailedAt is when an attempt of the delivery first failed, including this one; for its
	// dead letter.
	FirstFailedAt time.Time `json:"-"`

	Verdict Verdict `json:"verdict,omitzero"`
}

// EventRef names an event of a batch.
type EventRef struct {
	EventID string `json:"event_id"`
	Seq     uint64 `json:"seq"`
	Path    Path   `json:"path"`
	Type    string `json:"type"`
}

// Events returns the events of the request in order.
func (a *Attempt) Events() iter.Seq[EventRef] {
	return func(yield func(EventRef) bool) {
		if len(a.Batch) == 0 {
			yield(EventRef{a.EventID, a.Seq, a.Path, a.Type})
			return
		}
		for _, one := range a.Batch {
			if !yield(one) {
				return
			}
		}
	}
}

// LastSeq returns the sequence of the request's last event.
func (a *Attempt) LastSeq() uint64 {
	if n := len(a.Batch); n > 0 {
		return a.Batch[n-1].Seq
	}
	return a.Seq
}

// Verdict is the consequence of an attempt's outcome: settled, retried at a time, dead, or held. At
// most one of them is set.
type Verdict struct {
	Settled bool      `json:"settled,omitempty"`
	Again   time.Time `json:"again,omitzero"`
	Dead    Reason    `json:"dead,omitempty"`
	// Held is the reason why the delivery failed for good, if OnDead is hold: the lane waits for a
	// retry or a discard.
	Held   Reason `json:"held,omitempty"`
	Cancel bool   `json:"cancel,omitempty"` // the endpoint is gone: the subscription ends
}

// Final reports whether the delivery has ended, so that no more requests are sent for it.
func (v Verdict) Final() bool { return v.Again.IsZero() && v.Held == "" }

// Reason is the reason why a delivery failed for good.
type Reason string

// The reasons.
const (
	Exhausted      Reason = "exhausted"       // no attempt is left
	Expired        Reason = "expired"         // the event aged out of the log before it could be sent
	Unreadable     Reason = "unreadable"      // the log's files are damaged: the events cannot be read any more
	NotSendable    Reason = "refused"         // the request could not be created
	EndpointGone   Reason = "endpoint_gone"   // a 410 ended the subscription
	EventTooLarge  Reason = "too_large"       // the request would exceed the server's limit
	FilterError    Reason = "filter_error"    // the filter could not be evaluated
	Malformed      Reason = "invalid"         // the event cannot be read
	Loop           Reason = "loop"            // the event is part of a causation loop, or its producer is marked unsafe
	HandlerRefused Reason = "handler_refused" // a module's program refused the event for good, by its exit code or answer
	HandlerCrashed Reason = "handler_crashed" // a module's worker crashed on the event twice, and handled others in between
	OutputRefused  Reason = "output_refused"  // an event that a module's program published for it was refused for good
)

// Reasons returns all reasons.
func Reasons() []Reason {
	return []Reason{Exhausted, Expired, Unreadable, NotSendable, EndpointGone, EventTooLarge, FilterError, Malformed, Loop, HandlerRefused, HandlerCrashed, OutputRefused}
}

// Sendable reports whether an event whose delivery failed for the reason can be sent, because it
// exists and can be read.
func (r Reason) Sendable() bool { return r != Expired && r != Unreadable && r != Malformed }

// Parked is a lane, from a sequence on, that waits for the next attempt of its first event, the
// head. While the record exists, the server acknowledges events of the lane when they arrive, and
// reads them from the log again later.
type Parked struct {
	Lane string `json:"lane"`
	// Path is empty for a lane that spans the whole subscription.
	Path    Path   `json:"path,omitempty"`
	FromSeq uint64 `json:"from_seq"`
	// EventID is the ID of the event at FromSeq, if the event was read.
	EventID string `json:"event_id,omitempty"`
	// BatchTo is the sequence of the last event of the batch that failed and is sent again
	// unchanged; 0: no batch.
	BatchTo       uint64    `json:"batch_to,omitempty"`
	Attempts      int       `json:"attempts"`         // attempts of the event at FromSeq so far
	NextAt        time.Time `json:"next_at,omitzero"` // zero: immediately, unless it is held
	FirstFailedAt time.Time `json:"first_failed_at,omitzero"`
	LastError     string    `json:"last_error,omitempty"`
	// Held is the reason why the head failed for good. The lane then waits for a retry or a
	// discard, not for a time.
	Held   Reason    `json:"held,omitempty"`
	HeldAt time.Time `json:"held_at,omitzero"`
}

// Since returns when the lane's head first failed, or was held without an attempt; zero if neither.
func (p *Parked) Since() time.Time {
	if p.FirstFailedAt.IsZero() {
		return p.HeldAt
	}
	return p.FirstFailedAt
}

// DeadLetter is a delivery that failed for good. Each delivery has at most one dead letter: if it
// fails again after a redrive, the later one replaces the earlier.
type DeadLetter struct {
	Subscription string `json:"subscription"`
	Namespace    string `json:"namespace"`
	EventID      string `json:"event_id"` // empty if the event was never read
	Seq          uint64 `json:"seq"`
	LastSeq      uint64 `json:"last_seq,omitempty"` // with Expired and Unreadable: the end of the range that is lost
	Path         Path   `json:"path"`
	Attempts     int    `json:"attempts"`
	Reason       Reason `json:"reason"`
	LastError    string `json:"last_error,omitempty"`
	// LastStatus is the status of the last response; 0: no response.
	LastStatus int `json:"last_status,omitempty"`

	FirstFailedAt time.Time `json:"first_failed_at,omitzero"` // zero: no attempt
	At            time.Time `json:"at"`
	Replay        string    `json:"replay,omitempty"` // the replay in which it failed
	Event         *Event    `json:"event,omitempty"`  // if known
}

// Redrivable reports whether the delivery can be retried: its event is known and readable.
func (d *DeadLetter) Redrivable() bool {
	return d.Event != nil && d.Reason.Sendable()
}

// AppendJSON appends the dead letter as JSON. Unlike json.Marshal, it preserves the event's data
// byte for byte.
func (d *DeadLetter) AppendJSON(b []byte) ([]byte, error) {
	bare := *d
	bare.Event = nil
	data, err := json.Marshal(bare)
	if err != nil {
		return b, fmt.Errorf("dead letter: %w", err)
	}
	return d.AppendEvent(append(b, data...)), nil
}

// AppendEvent adds the event, if known, to the JSON object that b ends with.
func (d *DeadLetter) AppendEvent(b []byte) []byte {
	if d.Event == nil {
		return b
	}
	b = append(b[:len(b)-1], `,"event":`...)
	return append(d.Event.AppendJSON(b), '}')
}

// Status is the status of a subscription.
type Status struct {
	State  State  `json:"state"`
	Reason string `json:"reason,omitempty"`
	// Backlog is the number of events that were not examined yet or are in flight, without those of
	// parked lanes.
	Backlog uint64 `json:"backlog"`
	// Undelivered is Backlog plus the number of all events in the lanes of ParkedLanes, including
	// their heads.
	Undelivered uint64  `json:"undelivered"`
	InFlight    int     `json:"in_flight"`   // events fetched and not settled
	Parked      int     `json:"parked"`      // lanes
	Held        int     `json:"held"`        // parked lanes that wait for a retry or a discard
	AckFloor    uint64  `json:"ack_floor"`   // every event up to here is settled or parked
	LagSeconds  float64 `json:"lag_seconds"` // age of the oldest waiting event
	Breaker     Breaker `json:"breaker"`
	// NextAttemptAt is the time of the next attempt or, while the breaker is open, of the next
	// probe; null: none is scheduled.
	NextAttemptAt *time.Time `json:"next_attempt_at"`
	DeadLetters   uint64     `json:"dead_letters"`
	ParkedLanes   []Parked   `json:"parked_lanes"` // the first hundred by next_at, held ones last

	// SourceError says why the events cannot be read from the log. Deliveries stop until they can
	// be read.
	SourceError string `json:"source_error,omitempty"`

	// Consumers, in mode wake, is the number of consumers in each state. It replaces the other
	// counts.
	Consumers map[WakeState]int `json:"consumers,omitempty"`
}
