package sluice

import (
	"net/http"
	"strconv"
	"time"
)

// maxRetryAfter is the longest delay that a header Retry-After asks for.
const maxRetryAfter = 365 * 24 * time.Hour

// RetryAfter returns the delay of a Retry-After header, in seconds or as a date; 0 if it is neither
// or over, a year at most.
func RetryAfter(value string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseUint(value, 10, 32); err == nil {
		return min(time.Duration(seconds)*time.Second, maxRetryAfter)
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	return min(max(at.Sub(now), 0), maxRetryAfter)
}
