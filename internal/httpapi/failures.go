package httpapi

import (
	"container/list"
	"math"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/labstack/echo/v4"
	"golang.org/x/time/rate"

	"github.com/sluice-io/sluice/internal/authz"
	"github.com/sluice-io/sluice/internal/httpapi/httpkit"
	"github.com/sluice-io/sluice/internal/httpapi/live"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// maxSources limits the number of remembered sources of failures, some 200 bytes each. The source
// with the oldest failure is removed first, so a client with more addresses than that escapes the
// limit.
const maxSources = 16_384

// failures counts the requests of each source with an invalid token. A source is an address; for
// IPv6, the /64 of a host.
type failures struct {
	burst int           // failures allowed at once; 0: unlimited
	every time.Duration // interval after which one more is allowed

	mu       sync.Mutex
	bySource map[netip.Prefix]*list.Element
	order    *list.List // of *source, the last failure first
}

type source struct {
	prefix netip.Prefix
	spent  *rate.Limiter
	last   time.Time
}

func newFailures(burst int, every time.Duration) *failures {
	return &failures{burst: burst, every: every, bySource: map[netip.Prefix]*list.Element{}, order: list.New()}
}

// blocked reports whether the address has failed too often to get a detailed response, and if so,
// when one more failure is allowed. retryAfter is above 0 then. It counts nothing.
func (f *failures) blocked(addr netip.Addr, now time.Time) (retryAfter time.Duration, yes bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	found, ok := f.bySource[httpkit.SourceOf(addr)]
	if !ok {
		return 0, false
	}
	missing := 1 - found.Value.(*source).spent.TokensAt(now) //nolint:forcetypeassert // the list has nothing else
	if missing <= 0 {
		return 0, false
	}
	return time.Duration(missing * float64(f.every)), true
}

// note counts a failure of the address.
func (f *failures) note(addr netip.Addr, now time.Time) {
	if f.burst == 0 {
		return
	}
	prefix := httpkit.SourceOf(addr)
	f.mu.Lock()
	defer f.mu.Unlock()
	found, ok := f.bySource[prefix]
	if !ok {
		found = f.order.PushFront(&source{prefix: prefix, spent: rate.NewLimiter(rate.Every(f.every), f.burst)})
		f.bySource[prefix] = found
	}
	one := found.Value.(*source) //nolint:forcetypeassert // the list has nothing else
	one.last = slices.MaxFunc([]time.Time{one.last, now}, time.Time.Compare)
	one.spent.AllowN(one.last, 1) // with an earlier time, it would count the time between twice
	f.order.MoveToFront(found)
	f.forget(now)
}

// forget removes the sources that may again fail burst times, and the oldest ones beyond
// maxSources.
func (f *failures) forget(now time.Time) {
	for {
		oldest := f.order.Back()
		one := oldest.Value.(*source) //nolint:forcetypeassert // the list has nothing else
		if f.order.Len() <= maxSources && now.Sub(one.last) < time.Duration(f.burst)*f.every {
			return
		}
		f.order.Remove(oldest)
		delete(f.bySource, one.prefix)
		if f.order.Len() == 0 {
			return
		}
	}
}

// refuse returns the error for a failed authentication and counts it; a source that fails too often
// only gets a delay to wait. Requests with a valid token never get here, so other clients behind
// the same address cannot block them.
func (s *Server) refuse(c echo.Context, err error) error {
	if e := httpkit.Public(err); e.Code != sluice.Unauthenticated || !guesses(c, e) {
		return err // a request without a token is not a guess
	}
	addr, _ := netip.ParseAddr(c.RealIP()) // the zero address is a source, too
	now := time.Now()
	if wait, yes := s.failures.blocked(addr, now); yes {
		seconds := int(math.Ceil(wait.Seconds()))
		return sluice.Errorf(sluice.QuotaExceeded, "too many requests without a valid token from this address; wait %d s, or send a valid one", seconds).With("retry_after", seconds)
	}
	s.failures.note(addr, now)
	return err
}

// guesses reports whether the credentials of an unauthenticated request may be a guess. A ticket
// that was once valid is none. The code of a link always counts, even one that was valid until it
// was used.
func guesses(c echo.Context, e *sluice.Error) bool {
	if c.Request().Header.Get(echo.HeaderAuthorization) != "" || opensSession(c) {
		return true
	}
	reason, _ := e.Details["reason"].(string)
	return len(live.Tickets(c)) > 0 && slices.Contains([]authz.Reason{authz.Malformed, authz.Forged}, authz.Reason(reason))
}
