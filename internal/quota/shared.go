package quota

import (
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// SharedRate is a rate that several subscriptions have in common: those of one principal, in one
// namespace, with the same key and limits. It is the key of a map.
type SharedRate struct {
	Principal sluice.Principal // the principal responsible for the subscription; "" is the operator
	Namespace string
	Rate      sluice.Rate // with a key
}

// Rates limits the requests of subscriptions to the rates that they share. It is safe for
// concurrent use.
type Rates struct {
	mu  sync.Mutex
	all map[SharedRate][]*limiter
}

// NewRates returns rates without any requests counted.
func NewRates() *Rates { return &Rates{all: map[SharedRate][]*limiter{}} }

// Take counts a request that is about to be sent and returns 0. Without room it counts nothing, and
// returns how long to wait before asking again.
func (r *Rates) Take(of SharedRate, now time.Time) (wait time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	buckets := r.buckets(of, now)
	for _, b := range buckets {
		if missing := 1 - b.TokensAt(now); missing > 0 {
			wait = max(wait, time.Duration(math.Ceil(missing/float64(b.Limit())*float64(time.Second))), time.Microsecond)
		}
	}
	if wait == 0 {
		for _, b := range buckets {
			b.AllowN(now, 1)
		}
	}
	return wait
}

// Return undoes Take for a request that was not sent.
func (r *Rates) Return(of SharedRate, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, b := range r.buckets(of, now) {
		b.AllowN(now, -1)
	}
}

// buckets returns a bucket for each limit of a rate. A bucket holds a fiftieth of the limit, as the
// bucket of a single subscription does.
func (r *Rates) buckets(of SharedRate, now time.Time) []*limiter {
	if buckets, ok := r.all[of]; ok {
		return buckets
	}
	r.sweep(now)
	var buckets []*limiter
	for _, limit := range []struct{ n, seconds float64 }{{of.Rate.PerSecond, 1}, {of.Rate.PerMinute, 60}} {
		if limit.n > 0 {
			buckets = append(buckets, newLimiter(rate.Limit(limit.n/limit.seconds), max(1, int(limit.n/fraction))))
		}
	}
	r.all[of] = buckets
	return buckets
}

// sweep forgets rates whose buckets are full: they equal new ones.
func (r *Rates) sweep(now time.Time) {
	if len(r.all) < maxBuckets {
		return
	}
	for of, buckets := range r.all {
		full := true
		for _, b := range buckets {
			full = full && b.TokensAt(now) >= float64(b.Burst())
		}
		if full {
			delete(r.all, of)
		}
	}
}
