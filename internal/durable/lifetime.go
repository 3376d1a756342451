package durable

import (
	"math/rand/v2"
	"regexp"
	"strconv"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// renewals is how often a stream in constant use is renewed within one lifetime: a renewal is a
// write. The stream lives that much longer than required, never shorter.
const renewals = 20

var wholeSeconds = regexp.MustCompile(`^(0|[1-9][0-9]{0,14})$`)

// ParseTTL reads a number of seconds. Code InvalidRequest.
func ParseTTL(text string) (time.Duration, error) {
	if !wholeSeconds.MatchString(text) {
		return 0, sluice.Errorf(sluice.InvalidRequest, "Stream-TTL: write a whole number of seconds, without a sign or leading zeros")
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	const longest = int64(1<<63-1) / int64(time.Second) / 2
	if err != nil || seconds > longest {
		return 0, sluice.Errorf(sluice.InvalidRequest, "Stream-TTL: at most %d seconds", longest)
	}
	return time.Duration(seconds) * time.Second, nil
}

// Lifetime is how long a stream lives: for a time after its last use, until a moment, or for ever.
type Lifetime struct {
	TTL       *time.Duration `json:"ttl,omitempty"`
	ExpiresAt *time.Time     `json:"expires_at,omitempty"`
	Said      string         `json:"said,omitempty"` // ExpiresAt in its original form
}

func (l Lifetime) isZero() bool { return l.TTL == nil && l.ExpiresAt == nil }

func (l Lifetime) equal(o Lifetime) bool {
	return (l.TTL == nil) == (o.TTL == nil) && (l.TTL == nil || *l.TTL == *o.TTL) &&
		(l.ExpiresAt == nil) == (o.ExpiresAt == nil) && (l.ExpiresAt == nil || l.ExpiresAt.Equal(*o.ExpiresAt))
}

// expired reports whether the stream's life is over.
func (r *Record) expired(now time.Time) bool {
	l := r.Lifetime
	switch {
	case l.ExpiresAt != nil:
		return !now.Before(*l.ExpiresAt)
	case l.TTL != nil:
		return !now.Before(r.Renewed.Add(*l.TTL + *l.TTL/renewals))
	}
	return false
}

// left returns the remaining life of an unused stream.
func (r *Record) left(now time.Time) time.Duration {
	if r.Lifetime.ExpiresAt != nil {
		return max(r.Lifetime.ExpiresAt.Sub(now), 0)
	}
	return *r.Lifetime.TTL + *r.Lifetime.TTL/renewals
}

// stale reports whether a use of the stream now needs a renewal.
func (r *Record) stale(now time.Time) bool {
	return r.Lifetime.TTL != nil && now.Sub(r.Renewed) >= *r.Lifetime.TTL/renewals
}

// Cursors of live readers number intervals of time.
const (
	cursorInterval  = 20 * time.Second
	cursorMaxJitter = 3600 // seconds
)

// Cursor returns the number of the present interval, or a random later one if the reader has that
// already, so that it does not hit the same cache entry again.
func Cursor(given string, now time.Time) string {
	epoch := time.Date(2024, 10, 9, 0, 0, 0, 0, time.UTC)
	current := int64(now.Sub(epoch) / cursorInterval)
	if last, err := strconv.ParseInt(given, 10, 64); err == nil && last >= current && last < 1<<53 {
		jitter := time.Duration(1+rand.IntN(cursorMaxJitter)) * time.Second //nolint:gosec // it spreads requests, not a secret
		return strconv.FormatInt(last+max(1, int64((jitter+cursorInterval-1)/cursorInterval)), 10)
	}
	return strconv.FormatInt(current, 10)
}
