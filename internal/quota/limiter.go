package quota

import (
	"time"

	"golang.org/x/time/rate"
)

// limiter is a rate.Limiter that counts no time twice. Callers read the clock before they wait for
// the lock, so an earlier time may follow a later one. It counts as the later one here; rate.Limiter
// would count the time between the two again. The caller holds a lock.
type limiter struct {
	*rate.Limiter

	latest time.Time
}

func newLimiter(r rate.Limit, burst int) *limiter {
	return &limiter{Limiter: rate.NewLimiter(r, burst)}
}

// AllowN is that of rate.Limiter. A negative n gives tokens back.
func (l *limiter) AllowN(now time.Time, n int) bool {
	if now.After(l.latest) {
		l.latest = now
	}
	return l.Limiter.AllowN(l.latest, n)
}
