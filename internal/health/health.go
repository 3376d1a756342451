// Package health ranks subscriptions by the condition of their deliveries, worst first. The rank
// follows from data that needs no request for each subscription: the records of failing endpoints,
// the statistics of the last hour, and the standings that replicas report. Only for the
// subscriptions of a page does it read the full status.
package health

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// behindAfter is the age of the oldest undelivered event at which a subscription is behind.
const behindAfter = time.Minute

// Facts decide the condition of a subscription.
type Facts struct {
	State        sluice.State
	Breaker      sluice.Breaker
	Unreadable   bool      // its events cannot be read from the log
	FailingSince time.Time // every attempt has failed since; zero: the last one has not
	Attempts     uint64    // in the last minutes
	Delivered    uint64    // of these
	Parked, Held int       // lanes; held are among the parked
	Lag          time.Duration
	DeadLetters  uint64
}

// Of returns the condition.
func Of(f *Facts) sluice.Health {
	switch f.State {
	case sluice.Paused:
		return sluice.HealthPaused
	case sluice.Disabled:
		return sluice.HealthDisabled
	case sluice.Suspended:
		return sluice.HealthSuspended
	case sluice.Cancelled:
		return sluice.HealthCancelled
	case sluice.Active:
	}
	switch {
	case f.failing():
		return sluice.HealthFailing
	case f.Held > 0:
		return sluice.HealthHeld
	case f.Parked > f.Held || f.Breaker == sluice.BreakerHalfOpen:
		return sluice.HealthRetrying
	case f.Lag >= behindAfter:
		return sluice.HealthBehind
	case f.DeadLetters > 0:
		return sluice.HealthDeadLetters
	}
	return sluice.HealthOK
}

func (f *Facts) failing() bool {
	return f.Unreadable || f.Breaker == sluice.BreakerOpen || !f.FailingSince.IsZero() || f.Attempts > 0 && f.Delivered == 0
}

// place is the rank of a subscription: by condition, then by duration of the trouble, the longest
// first, then by ID.
type place struct {
	rank  int
	since time.Time // start of the trouble; zero: unknown, ranked last
	id    string
}

func rankOf(h sluice.Health) int { return slices.Index(sluice.Healths(), h) }

// placeOf returns the place of a subscription. Oldest is when its oldest undelivered event was
// stored; zero if none waits.
func placeOf(id string, h sluice.Health, failingSince, oldest time.Time) place {
	since := failingSince
	if since.IsZero() || !oldest.IsZero() && oldest.Before(since) {
		since = oldest
	}
	return place{rankOf(h), since.UTC().Truncate(time.Second), id}
}

// worse compares two places.
func worse(a, b place) int {
	known := func(p place) int {
		if p.since.IsZero() {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(known(a), known(b)), a.since.Compare(b.since), strings.Compare(a.id, b.id))
}

// cursor returns the cursor after a place.
func (p place) cursor() string {
	var since int64
	if !p.since.IsZero() {
		since = p.since.Unix()
	}
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d %d %s", p.rank, since, p.id))
}

// parseCursor returns the place of a cursor. Code InvalidRequest.
func parseCursor(text string) (p place, err error) {
	data, err := base64.RawURLEncoding.DecodeString(text)
	var since int64
	if err == nil {
		_, err = fmt.Sscanf(string(data), "%d %d %s", &p.rank, &since, &p.id)
	}
	if since != 0 {
		p.since = time.Unix(since, 0).UTC()
	}
	if err != nil || p.cursor() != text {
		return place{}, model.ForeignCursor(text)
	}
	return p, nil
}
