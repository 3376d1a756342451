package sluice

import "time"

// Breaker says whether an endpoint is sent requests.
type Breaker string

// The states of a breaker. The zero value is closed.
const (
	BreakerClosed   Breaker = "closed"    // as many as the window and the rate allow
	BreakerOpen     Breaker = "open"      // none but a probe now and then
	BreakerHalfOpen Breaker = "half_open" // a few at once, then more
)

// Health is what is remembered of a subscription whose endpoint is in trouble. The zero value
// says that there is nothing to remember.
type Health struct {
	Breaker      Breaker   `json:"breaker,omitempty"` // empty: closed
	ProbeAt      time.Time `json:"probe_at,omitzero"` // while it is open
	Pause        Duration  `json:"pause,omitempty"`   // between the last two probes
	HeldUntil    time.Time `json:"held_until,omitzero"`
	FailingSince time.Time `json:"failing_since,omitzero"` // every attempt has failed since
	Unopened     string    `json:"unopened,omitempty"`     // why its source could not be opened the last few times
	Alerted      int       `json:"alerted,omitempty"`      // per cent of the way to being disabled that were told of
	Revision     uint64    `json:"revision,omitempty"`     // of the subscription: a change made while nobody served it begins anew
}
