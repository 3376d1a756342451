package sluice

import "time"

// Breaker is the state of an endpoint's circuit breaker.
type Breaker string

// The states of a breaker. The zero value is closed.
const (
	BreakerClosed   Breaker = "closed"    // as many requests as the window and the rate allow
	BreakerOpen     Breaker = "open"      // only occasional probes
	BreakerHalfOpen Breaker = "half_open" // a few requests at once, then more
)

// Health is the condition of a subscription's deliveries.
type Health string

// The conditions, worst first.
const (
	HealthFailing     Health = "failing"      // the endpoint is down, every recent attempt failed, or the events cannot be read
	HealthDisabled    Health = "disabled"     // the server stopped the deliveries: every attempt had failed for too long
	HealthSuspended   Health = "suspended"    // the server stopped the deliveries for another reason
	HealthHeld        Health = "held"         // lanes wait for a retry or a discard
	HealthRetrying    Health = "retrying"     // lanes wait for their next attempt, or the breaker is half open
	HealthBehind      Health = "behind"       // the oldest undelivered event is older than a minute
	HealthDeadLetters Health = "dead_letters" // some events failed for good
	HealthPaused      Health = "paused"
	HealthOK          Health = "ok"
	HealthCancelled   Health = "cancelled"
)

// Healths returns all conditions, worst first.
func Healths() []Health {
	return []Health{
		HealthFailing, HealthDisabled, HealthSuspended, HealthHeld, HealthRetrying, HealthBehind, HealthDeadLetters, HealthPaused, HealthOK, HealthCancelled,
	}
}

// Troubles returns the conditions that need attention, worst first.
func Troubles() []Health {
	return []Health{HealthFailing, HealthDisabled, HealthSuspended, HealthHeld, HealthRetrying, HealthBehind, HealthDeadLetters}
}

// SubscriptionHealth is the condition of a subscription, and the figures that determine it.
type SubscriptionHealth struct {
	ID        string  `json:"id"`
	Namespace string  `json:"namespace"`
	Mode      Mode    `json:"mode"`
	Pattern   Pattern `json:"pattern"`
	URL       string  `json:"url,omitempty"`
	Health    Health  `json:"health"`
	State     State   `json:"state"`
	Reason    string  `json:"reason,omitempty"` // reason of the state
	Breaker   Breaker `json:"breaker"`

	FailingSince *time.Time  `json:"failing_since,omitempty"` // every attempt has failed since
	LastHour     HourOf      `json:"last_hour"`
	LastAttempt  *LastAnswer `json:"last_attempt,omitempty"`

	LagSeconds    float64    `json:"lag_seconds"` // age of the oldest undelivered event
	Backlog       uint64     `json:"backlog"`
	Parked        int        `json:"parked"` // lanes
	Held          int        `json:"held"`   // parked lanes that wait for a retry or a discard
	DeadLetters   uint64     `json:"dead_letters"`
	NextAttemptAt *time.Time `json:"next_attempt_at,omitempty"` // while the breaker is open, the next probe
	SourceError   string     `json:"source_error,omitempty"`    // why the events cannot be read from the log
	Sparkline     *Sparkline `json:"sparkline,omitempty"`       // only if requested
}

// HourOf holds the statistics of an hour.
type HourOf struct {
	Attempts       uint64   `json:"attempts"`
	SuccessPercent *float64 `json:"success_percent,omitempty"` // part of the attempts; absent if there were none
	P95            Duration `json:"p95,omitempty"`             // estimated maximum duration of 95 % of the attempts
}

// LastAnswer is the outcome of the last attempt.
type LastAnswer struct {
	At      time.Time `json:"at"`
	Outcome Outcome   `json:"outcome"`
	Status  int       `json:"status,omitempty"` // 0: no response
	Error   string    `json:"error,omitempty"`
}
