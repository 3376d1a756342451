package quota

import (
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// sweepEvery is how often buckets that nobody needs are looked for.
const sweepEvery = time.Minute

// Quotas are the namespaces' publish quotas. Its methods may be called at once.
type Quotas struct {
	mu      sync.Mutex
	limits  map[string]limit
	buckets map[string]*bucket // of namespaces that published lately
	swept   time.Time
}

// limit is a namespace's quota, and which revision of the namespace says so.
type limit struct {
	quota    sluice.Quota
	revision uint64
}

// bucket is what a namespace may publish now; nil is without bound.
type bucket struct{ events, bytes *rate.Limiter }

// NewQuotas returns quotas that bound nothing.
func NewQuotas() *Quotas { return &Quotas{limits: map[string]limit{}, buckets: map[string]*bucket{}} }

// Set tells of a namespace, its quota being the one in force. An older revision than is known
// changes nothing, and so does the same quota.
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

// Remove tells that a namespace is gone.
func (q *Quotas) Remove(namespace string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.limits, namespace)
	delete(q.buckets, namespace)
}

// Take pays for a request of so many events and bytes, all or nothing. Codes: QuotaExceeded, with
// limit, allowed and retry_after in whole seconds; TooLarge if it is more than the namespace may
// publish at once, ever.
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
		b.events = rate.NewLimiter(rate.Limit(per), max(1, quota.Burst))
	}
	if per := quota.BytesPerSecond; per > 0 {
		b.bytes = rate.NewLimiter(rate.Limit(per), int(per))
	}
	q.buckets[namespace] = b
	return b
}

// sweep forgets buckets that are full: new ones are no different.
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

func isFull(l *rate.Limiter, now time.Time) bool {
	return l == nil || l.TokensAt(now) >= float64(l.Burst())
}

// check returns why so many of what cannot be published now, nil if they can.
func check(namespace, what string, l *rate.Limiter, n int, now time.Time) error {
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

func pay(l *rate.Limiter, n int, now time.Time) {
	if l != nil {
		l.AllowN(now, n)
	}
}
