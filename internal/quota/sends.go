package quota

import (
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Sends limits the requests to endpoints that callers trigger: tests, retries, redrives, replays
// and handshakes. A caller that may subscribe chooses the URL, so without a limit the server would
// send to any host, as often as the caller likes. It is safe for concurrent use.
type Sends struct {
	perSubscription, perPrincipal int // a minute; 0: any number

	mu  sync.Mutex
	all map[string]*limiter // by "s:"+subscription, "p:"+principal
}

// maxBuckets is the number of buckets that triggers dropping the full ones.
const maxBuckets = 4096

// NewSends returns a limit on the requests per minute to one subscription's endpoint, and for one
// principal; 0: any number.
func NewSends(perSubscription, perPrincipal int) *Sends {
	return &Sends{perSubscription: perSubscription, perPrincipal: perPrincipal, all: map[string]*limiter{}}
}

// Pay counts one request to the endpoint of a subscription ("": of one that is not stored yet),
// triggered by a principal. Code QuotaExceeded, with retry_after in seconds, if either has reached
// its limit; then nothing is counted.
func (s *Sends) Pay(subscription string, who sluice.Principal, now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	buckets := []*limiter{s.bucket("p:"+string(who), s.perPrincipal, now)}
	if subscription != "" {
		buckets = append(buckets, s.bucket("s:"+subscription, s.perSubscription, now))
	}
	wait := 0
	for _, b := range buckets {
		wait = max(wait, missing(b, now))
	}
	if wait > 0 {
		return sluice.Errorf(sluice.QuotaExceeded, "too many tests, retries, replays and handshakes: the limits are %d per minute for a subscription and %d for a principal; retry in %d s, or have limits.sends_per_subscription or limits.sends_per_principal raised",
			s.perSubscription, s.perPrincipal, wait).With("retry_after", wait)
	}
	for _, b := range buckets {
		if b != nil {
			b.AllowN(now, 1)
		}
	}
	return nil
}

// bucket returns the bucket of a minute's requests; nil: unlimited.
func (s *Sends) bucket(key string, perMinute int, now time.Time) *limiter {
	if perMinute == 0 {
		return nil
	}
	if b := s.all[key]; b != nil {
		return b
	}
	dropFull(s.all, now)
	b := newLimiter(rate.Limit(float64(perMinute)/60), perMinute)
	s.all[key] = b
	return b
}

// dropFull drops the full buckets when there are maxBuckets or more: a full bucket equals a new
// one.
func dropFull[K comparable](all map[K]*limiter, now time.Time) {
	if len(all) < maxBuckets {
		return
	}
	for key, b := range all {
		if b.TokensAt(now) >= float64(b.Burst()) {
			delete(all, key)
		}
	}
}

// missing returns the seconds until a bucket has enough for one request; 0: it has.
func missing(b *limiter, now time.Time) int {
	if b == nil || b.TokensAt(now) >= 1 {
		return 0
	}
	return max(1, int(math.Ceil((1-b.TokensAt(now))/float64(b.Limit()))))
}
