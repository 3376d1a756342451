package sluice

import (
	"net/http"
	"strconv"
	"time"
)

// maxRetryAfter is the longest delay that RetryAfter returns.
const maxRetryAfter = 365 * 24 * time.Hour

// RetryAfter returns the delay that a header Retry-After gives in seconds or as a date, a year at
// most; 0 if the value has neither form, or is in the past.
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
