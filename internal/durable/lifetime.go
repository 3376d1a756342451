package durable

import (
	"math/rand/v2"
	"regexp"
	"strconv"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// renewals is how many times a stream in constant use is renewed within one lifetime. It is small,
// because a renewal is a write. A stream lives up to that part of its lifetime longer than
// required, never shorter.
const renewals = 20

var wholeSeconds = regexp.MustCompile(`^(0|[1-9][0-9]{0,14})$`)

// ParseTTL parses a number of seconds. Code InvalidRequest.
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

// Lifetime is how long a stream lives: for a time after its last use (TTL), until a moment
// (ExpiresAt), or forever.
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

// expiry returns when the stream's lifetime is over; the zero time without a limit.
func (r *Record) expiry() time.Time {
	l := r.Lifetime
	switch {
	case l.ExpiresAt != nil:
		return *l.ExpiresAt
	case l.TTL != nil:
		return r.Renewed.Add(*l.TTL + *l.TTL/renewals)
	}
	return time.Time{}
}

// expired reports whether the stream's lifetime is over.
func (r *Record) expired(now time.Time) bool {
	return !r.Lifetime.isZero() && !now.Before(r.expiry())
}

// left returns how long the record of a stream with a lifetime has to be kept if the stream is not
// used after now.
func (r *Record) left(now time.Time) time.Duration {
	if r.Lifetime.ExpiresAt != nil {
		return max(r.Lifetime.ExpiresAt.Sub(now), 0)
	}
	return *r.Lifetime.TTL + *r.Lifetime.TTL/renewals
}

// stale reports whether a use of the stream now has to renew its lifetime.
func (r *Record) stale(now time.Time) bool {
	return r.Lifetime.TTL != nil && now.Sub(r.Renewed) >= *r.Lifetime.TTL/renewals
}

// Parameters of cursors, which number intervals of time.
const (
	cursorInterval  = 20 * time.Second
	cursorMaxJitter = 3600 // seconds
)

// Cursor returns the number of the present interval. If the reader already has that, or a later
// one, it returns a random later number, so that the reader does not get the same cache entry
// again.
func Cursor(given string, now time.Time) string {
	epoch := time.Date(2024, 10, 9, 0, 0, 0, 0, time.UTC)
	current := int64(now.Sub(epoch) / cursorInterval)
	if last, err := strconv.ParseInt(given, 10, 64); err == nil && last >= current && last < 1<<53 {
		jitter := time.Duration(1+rand.IntN(cursorMaxJitter)) * time.Second //nolint:gosec // it spreads requests, not a secret
		return strconv.FormatInt(last+max(1, int64((jitter+cursorInterval-1)/cursorInterval)), 10)
	}
	return strconv.FormatInt(current, 10)
}
