package quota

import (
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Paces holds requests to endpoints to the rate that the endpoints agreed to in their handshake
// (WebHook-Allowed-Rate). All of a principal's requests to one URL share one rate, across
// subscriptions, modes, replays and tests. It is safe for concurrent use.
type Paces struct {
	mu  sync.Mutex
	all map[Receiver]*limiter
}

// Receiver is an endpoint that agreed to a rate.
type Receiver struct {
	Principal sluice.Principal // the principal responsible for the subscription; "" is the operator
	URL       string
	PerMinute int // accepted requests, above 0
}

// fraction is the burst as a part of a minute's requests: a fiftieth.
const fraction = 50

// NewPaces returns paces without any requests counted.
func NewPaces() *Paces { return &Paces{all: map[Receiver]*limiter{}} }

// Take counts a request that is about to be sent and returns 0. Without room it counts nothing, and
// returns how long to wait before asking again. In no minute are more than PerMinute requests
// granted: a receiver that counts in windows of a minute, with any start, counts no more.
func (p *Paces) Take(r Receiver, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.bucket(r, now)
	if b.AllowN(now, 1) {
		return 0
	}
	wait := (1 - b.TokensAt(now)) / float64(b.Limit()) * float64(time.Second)
	return max(time.Duration(math.Ceil(wait)), time.Microsecond)
}

// Return undoes Take for a request that was not sent.
func (p *Paces) Return(r Receiver, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bucket(r, now).AllowN(now, -1)
}

// bucket returns a receiver's bucket. A bucket that holds b and is refilled at r a minute grants
// fewer than b + r requests in a minute. Here b + r is PerMinute + 1, so it grants at most
// PerMinute.
func (p *Paces) bucket(r Receiver, now time.Time) *limiter {
	if b := p.all[r]; b != nil {
		return b
	}
	dropFull(p.all, now)
	most := max(1, r.PerMinute/fraction)
	b := newLimiter(rate.Limit(float64(r.PerMinute-most+1)/60), most)
	p.all[r] = b
	return b
}
