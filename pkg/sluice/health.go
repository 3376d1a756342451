package sluice

// Breaker is the state of an endpoint's circuit breaker.
type Breaker string

// The states of a breaker. The zero value is closed.
const (
	BreakerClosed   Breaker = "closed"    // requests up to the window and the rate
	BreakerOpen     Breaker = "open"      // only occasional probes
	BreakerHalfOpen Breaker = "half_open" // a few requests at once, then more
)
