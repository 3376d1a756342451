package sluice

import (
	"net/url"
	"strings"
	"time"
)

// WakeState is where a wake consumer is in its life (S1-27).
type WakeState string

// The states of a wake consumer.
const (
	WakeIdle    WakeState = "idle"    // nothing is pending, or it has not been noticed yet
	WakeWaking  WakeState = "waking"  // a notice is on its way, or will be sent again
	WakeLive    WakeState = "live"    // somebody has claimed the wake and calls back
	WakeRemoved WakeState = "removed" // it is no more; its epoch is kept for one that comes back
)

// The codes of S1's callbacks, as they are on the wire (S1-85…91).
const (
	WakeInvalid      Code = "INVALID_REQUEST"
	WakeTokenExpired Code = "TOKEN_EXPIRED"
	WakeTokenInvalid Code = "TOKEN_INVALID"
	WakeTaken        Code = "ALREADY_CLAIMED"
	WakeOffset       Code = "INVALID_OFFSET"
	WakeStale        Code = "STALE_EPOCH"
	WakeGone         Code = "CONSUMER_GONE"
)

// TypeNotice is what attempts to wake are called among attempts to deliver; their event is the wake.
const TypeNotice = "notice"

// WakeConsumer is a wake consumer as it is shown: one stream's life under a subscription of mode wake.
type WakeConsumer struct {
	ID           string       `json:"id"` // WakeConsumerID
	Namespace    string       `json:"namespace"`
	Subscription string       `json:"subscription"`
	Path         Path         `json:"path"` // the stream that it was made for
	State        WakeState    `json:"state"`
	Epoch        uint64       `json:"epoch"` // of the last wake; 0: there was none
	WakeID       string       `json:"wake_id,omitempty"`
	Streams      []WakeStream `json:"streams"`
	Pending      bool         `json:"pending"`                  // of some stream something is not acknowledged
	WokenAt      *time.Time   `json:"woken_at,omitempty"`       // when the last wake began
	NextAttempt  *time.Time   `json:"next_attempt_at,omitzero"` // waking: when the next attempt is due
	LiveUntil    *time.Time   `json:"live_until,omitempty"`     // live: by when a callback has to come
	Failures     int          `json:"failures"`                 // attempts of this wake that failed
	FailingSince *time.Time   `json:"failing_since,omitempty"`
	LastError    string       `json:"last_error,omitempty"`
	Attempts     []Attempt    `json:"attempts,omitempty"` // of the last wake, if one consumer was asked for
}

// WakeStream is a stream that a wake consumer follows. Offsets are those of the Durable Streams protocol; "-1" is
// before everything (S1-19).
type WakeStream struct {
	Path    Path   `json:"path"`
	Acked   string `json:"acked"`
	Tail    string `json:"tail,omitempty"` // if one consumer was asked for
	Pending bool   `json:"pending"`
}

// WakeConsumerID returns S1's consumer id: the subscription's, a colon, and the percent-encoded path (S1-12).
func WakeConsumerID(subscription string, path Path) string {
	return subscription + ":" + url.PathEscape(string(path))
}

// ParseWakeConsumerID is the inverse of WakeConsumerID. ok is false if there is no such id.
func ParseWakeConsumerID(id string) (subscription string, path Path, ok bool) {
	subscription, escaped, _ := strings.Cut(id, ":")
	text, err := url.PathUnescape(escaped)
	if err == nil {
		path, err = ParsePath(text)
	}
	return subscription, path, err == nil
}

// WakeAnswer is what a callback that was taken is answered (S1-82).
type WakeAnswer struct {
	Token   string      `json:"token"`   // for the next callback (S1-83)
	Streams []WakeAcked `json:"streams"` // that the consumer follows now; with none it is no more (S1-84)
}

// WakeAcked is a stream, and how far it is acknowledged (S1-50).
type WakeAcked struct {
	Path   Path   `json:"path"`
	Offset string `json:"offset"`
}

// WakeQuery picks wake consumers of a subscription, in the order of their paths.
type WakeQuery struct {
	State WakeState // "": all that are not removed
	After string    // Next of the page before
	Limit int
}

// WakePage is some of a subscription's wake consumers.
type WakePage struct {
	Consumers []WakeConsumer
	Next      string            // for After; "": there are no more
	Counts    map[WakeState]int // of all consumers of the subscription, those of other pages too
}
