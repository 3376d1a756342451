package model

import (
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Health is the persistent state of a subscription with a failing endpoint. The zero value means
// healthy.
type Health struct {
	Breaker      sluice.Breaker  `json:"breaker,omitempty"` // empty: closed
	ProbeAt      time.Time       `json:"probe_at,omitzero"` // while it is open
	Pause        sluice.Duration `json:"pause,omitempty"`   // between the last two probes
	HeldUntil    time.Time       `json:"held_until,omitzero"`
	FailingSince time.Time       `json:"failing_since,omitzero"` // every attempt has failed since
	// Unopened is why its source could not be opened repeatedly.
	Unopened string `json:"unopened,omitempty"`
	// Alerted is the last published percentage of the time until it is disabled.
	Alerted int `json:"alerted,omitempty"`
	// Revision is that of the subscription. A change that was made while it was not served resets
	// its health.
	Revision uint64 `json:"revision,omitempty"`
}

// StoredHealth is the health of a subscription as it is stored.
type StoredHealth struct {
	Health

	Since time.Time `json:"since"` // when its subscription was made
}
