package quota

import (
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// sweepEvery is the interval of sweeps of unused buckets.
const sweepEvery = time.Minute

// Quotas enforces the publish quotas of namespaces. It is safe for concurrent use.
type Quotas struct {
	mu      sync.Mutex
	limits  map[string]limit
	buckets map[string]*bucket // of namespaces that published recently
	swept   time.Time
}

// limit is a namespace's quota, and the revision of the namespace that set it.
type limit struct {
	quota    sluice.Quota
	revision uint64
}

// bucket is a namespace's remaining quota; a nil limiter is unlimited.
type bucket struct{ events, bytes *limiter }

// NewQuotas returns quotas without limits.
func NewQuotas() *Quotas { return &Quotas{limits: map[string]limit{}, buckets: map[string]*bucket{}} }

// Set enters a namespace with its effective quota. It ignores an older revision, and an unchanged
// quota.
func (q *Quotas) Set(ns sluice.Namespace) {
	q.mu.Lock()
	defer q.mu.Unlock()
	known := q.limits[ns.Name]
	if ns.Revision < known.revision {
		return
	}
	q.limits[ns.Name] = limit{ns.Quota, ns.Revision}
	if ns.Quota != known.quota {
		delete(q.buckets, ns.Name)
	}
}

// Remove removes a namespace.
func (q *Quotas) Remove(namespace string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.limits, namespace)
	delete(q.buckets, namespace)
}

// Take charges a request of this many events and bytes, all or nothing. Codes: QuotaExceeded, with
// limit, allowed and retry_after in whole seconds; TooLarge if the request exceeds the namespace's
// burst.
func (q *Quotas) Take(namespace string, events, bytes int, now time.Time) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	quota := q.limits[namespace].quota
	if quota.EventsPerSecond <= 0 && quota.BytesPerSecond <= 0 {
		return nil
	}
	b := q.bucket(namespace, quota, now)
	if err := check(namespace, "events", b.events, events, now); err != nil {
		return err
	}
	if err := check(namespace, "bytes", b.bytes, bytes, now); err != nil {
		return err
	}
	pay(b.events, events, now)
	pay(b.bytes, bytes, now)
	return nil
}

func (q *Quotas) bucket(namespace string, quota sluice.Quota, now time.Time) *bucket {
	b := q.buckets[namespace]
	if b != nil {
		return b
	}
	q.sweep(now)
	b = &bucket{}
	if per := quota.EventsPerSecond; per > 0 {
		b.events = newLimiter(rate.Limit(per), max(1, quota.Burst))
	}
	if per := quota.BytesPerSecond; per > 0 {
		b.bytes = newLimiter(rate.Limit(per), int(per))
	}
	q.buckets[namespace] = b
	return b
}

// sweep forgets full buckets: they equal new ones.
func (q *Quotas) sweep(now time.Time) {
	if now.Sub(q.swept) < sweepEvery {
		return
	}
	q.swept = now
	for name, b := range q.buckets {
		if isFull(b.events, now) && isFull(b.bytes, now) {
			delete(q.buckets, name)
		}
	}
}

func isFull(l *limiter, now time.Time) bool {
	return l == nil || l.TokensAt(now) >= float64(l.Burst())
}

// check returns the error if n units exceed the quota now, nil if they do not.
func check(namespace, what string, l *limiter, n int, now time.Time) error {
	if l == nil {
		return nil
	}
	if n > l.Burst() {
		return sluice.Errorf(sluice.TooLarge, "namespace %s accepts at most %d %s at once, and this request has %d; send less at once, or have the quota raised",
			namespace, l.Burst(), what, n).With("limit", l.Burst()).With("unit", what)
	}
	tokens := l.TokensAt(now)
	if tokens >= float64(n) {
		return nil
	}
	per := float64(l.Limit())
	wait := max(1, int(math.Ceil((float64(n)-tokens)/per)))
	return sluice.Errorf(sluice.QuotaExceeded, "namespace %s accepts %v %s per second, and this request has %d; retry in %d s", namespace, per, what, n, wait).
		With("limit", per).With("unit", what).With("allowed", int(max(tokens, 0))).With("retry_after", wait)
}

func pay(l *limiter, n int, now time.Time) {
	if l != nil {
		l.AllowN(now, n)
	}
}
