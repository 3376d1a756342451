package httpapi

import (
	"math"
	"sync"
	"time"

	"github.com/labstack/echo/v4"
	"golang.org/x/time/rate"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// sends bounds how often requests to endpoints are asked for by hand: tests, retries, redrives and replays. Whoever may
// subscribe chooses the URL, so without a bound the server would send what they like to whom they like.
type sends struct {
	perSubscription, perPrincipal int // a minute; 0: any number

	mu  sync.Mutex
	all map[string]*rate.Limiter // by "s:"+subscription, "p:"+principal
}

// maxSenders is how many buckets there are before those are looked for that are full.
const maxSenders = 4096

// paysForSend pays for a request to the endpoint of the request's subscription. Code QuotaExceeded, with retry_after, if the
// subscription, or the principal that answers for the caller, has had too many. The operator has any number.
func (s *Server) paysForSend(c echo.Context) error {
	who := caller(c)
	if who.Unbounded() || s.opts.Access == nil {
		return nil
	}
	sub, now := subscription(c), time.Now()
	return s.sends.pay(sub.ID, s.opts.Access.Answers(who, sub.Namespace, now), now)
}

func (s *sends) pay(subscription string, who sluice.Principal, now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	ofSubscription, ofPrincipal := s.bucket("s:"+subscription, s.perSubscription, now), s.bucket("p:"+string(who), s.perPrincipal, now)
	if wait := max(missing(ofSubscription, now), missing(ofPrincipal, now)); wait > 0 {
		return sluice.Errorf(sluice.QuotaExceeded, "too many tests, retries and replays: %d a minute for a subscription and %d for a principal are allowed; try again in %d s, or have limits.sends_per_subscription or limits.sends_per_principal raised",
			s.perSubscription, s.perPrincipal, wait).With("retry_after", wait)
	}
	for _, b := range []*rate.Limiter{ofSubscription, ofPrincipal} {
		if b != nil {
			b.AllowN(now, 1)
		}
	}
	return nil
}

// bucket returns what is left of a minute's worth; nil: there is no bound.
func (s *sends) bucket(key string, perMinute int, now time.Time) *rate.Limiter {
	if perMinute == 0 {
		return nil
	}
	if b := s.all[key]; b != nil {
		return b
	}
	if len(s.all) >= maxSenders {
		for other, b := range s.all {
			if b.TokensAt(now) >= float64(b.Burst()) {
				delete(s.all, other)
			}
		}
	}
	b := rate.NewLimiter(rate.Limit(float64(perMinute)/60), perMinute)
	if s.all == nil {
		s.all = map[string]*rate.Limiter{}
	}
	s.all[key] = b
	return b
}

// missing returns after how many seconds a bucket has enough for one; 0: now.
func missing(b *rate.Limiter, now time.Time) int {
	if b == nil || b.TokensAt(now) >= 1 {
		return 0
	}
	return max(1, int(math.Ceil((1-b.TokensAt(now))/float64(b.Limit()))))
}
