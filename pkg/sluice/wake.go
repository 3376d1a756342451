package sluice

import (
	"time"
)

// WakeState is the state of a wake consumer (S1-27).
type WakeState string

// The states of a wake consumer.
const (
	WakeIdle    WakeState = "idle"    // nothing is pending, or the server has not noticed it yet
	WakeWaking  WakeState = "waking"  // a notice is in flight, or will be retried
	WakeLive    WakeState = "live"    // a worker has claimed the wake and calls back
	WakeRemoved WakeState = "removed" // removed; its epoch is kept in case it returns
)

// The codes of S1's callbacks, as they are sent (S1-85…91).
const (
	WakeInvalid      Code = "INVALID_REQUEST"
	WakeTokenExpired Code = "TOKEN_EXPIRED"
	WakeTokenInvalid Code = "TOKEN_INVALID"
	WakeTaken        Code = "ALREADY_CLAIMED"
	WakeOffset       Code = "INVALID_OFFSET"
	WakeStale        Code = "STALE_EPOCH"
	WakeGone         Code = "CONSUMER_GONE"
)

// TypeNotice is the event type of wake attempts in the log of attempts. Their event is the wake.
const TypeNotice = "notice"

// WakeConsumer is the public view of a wake consumer: one stream under a subscription of mode wake.
type WakeConsumer struct {
	ID           string       `json:"id"` // WakeConsumerID
	Namespace    string       `json:"namespace"`
	Subscription string       `json:"subscription"`
	Path         Path         `json:"path"` // stream that it was created for
	State        WakeState    `json:"state"`
	Epoch        uint64       `json:"epoch"` // epoch of the last wake; 0: none
	WakeID       string       `json:"wake_id,omitempty"`
	Streams      []WakeStream `json:"streams"`
	Pending      *bool        `json:"pending,omitempty"`  // some stream has unacknowledged events; only for a single consumer, and while it is waking
	WokenAt      *time.Time   `json:"woken_at,omitempty"` // start of the last wake
	// NextAttempt, while it is waking, is when the next attempt is due.
	NextAttempt  *time.Time `json:"next_attempt_at,omitzero"`
	LiveUntil    *time.Time `json:"live_until,omitempty"` // live: deadline of the next callback
	Failures     int        `json:"failures"`             // failed attempts of this wake
	FailingSince *time.Time `json:"failing_since,omitempty"`
	LastError    string     `json:"last_error,omitempty"`
	// Attempts are the attempts of the last wake; only for a single consumer.
	Attempts []Attempt `json:"attempts,omitempty"`
}

// WakeStream is a stream that a wake consumer follows. Offsets are those of the Durable Streams
// protocol; "-1" is before the first (S1-19).
type WakeStream struct {
	Path    Path   `json:"path"`
	Acked   string `json:"acked"`
	Tail    string `json:"tail,omitempty"`    // only for a single consumer
	Pending *bool  `json:"pending,omitempty"` // only for a single consumer
}
