package schedule

import (
	"sync"
	"time"
)

const (
	maxJump = 5 * time.Second  // a larger difference is a jump, not the correction of a small drift
	settle  = 30 * time.Second // how long a clock is not trusted after a jump, so that an operator or NTP can correct a mistake
)

// reading is the wall clock time, and the time since the clock was created by the monotonic clock.
type reading struct {
	wall time.Time
	ran  time.Duration
}

// Doubt is the range of wall clock times, From included and Until excluded, that passed or were
// skipped while the clock was not trusted.
type Doubt struct{ From, Until time.Time }

// Covers reports whether a time is in the range.
func (d Doubt) Covers(at time.Time) bool { return !at.Before(d.From) && at.Before(d.Until) }

// trust is the state of a clock: its last reading, and whether it is trusted.
type trust struct {
	last  reading
	until time.Duration // the clock is not trusted before this time of the monotonic clock
	doubt Doubt
}

// after returns the state after another reading, and whether the wall clock has jumped since the
// previous one. A machine that was suspended looks the same, because its monotonic clock stood
// still.
func (t trust) after(r reading) (trust, bool) {
	jump := r.wall.Sub(t.last.wall) - (r.ran - t.last.ran)
	was := t.last
	t.last = r
	if jump.Abs() <= maxJump {
		return t, false
	}
	from := was.wall
	if r.wall.Before(from) {
		from = r.wall
	}
	if was.ran < t.until && t.doubt.From.Before(from) { // it jumped again while it was not trusted
		from = t.doubt.From
	}
	t.until, t.doubt = r.ran+settle, Doubt{from, r.wall.Add(settle)}
	return t, true
}

// doubted reports whether the clock was not trusted at the last reading.
func (t trust) doubted() bool { return t.last.ran < t.until }

// clock reads the clock. It is safe for concurrent use.
type clock struct {
	now   func() time.Time
	began time.Time

	mu    sync.Mutex
	trust trust
	jumps int
}

func newClock(now func() time.Time) *clock {
	began := now()
	return &clock{now: now, began: began, trust: trust{last: reading{wall: began.Round(0)}}}
}

// doubted reads the clock, and reports whether it is not trusted now.
func (c *clock) doubted() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	var jumped bool
	if c.trust, jumped = c.trust.after(reading{now.Round(0), now.Sub(c.began)}); jumped { // Sub uses the monotonic clock if now has a reading of it
		c.jumps++
	}
	return c.trust.doubted()
}

// jumped returns the number of detected jumps.
func (c *clock) jumped() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.jumps
}

func (c *clock) doubt() Doubt {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.trust.doubt
}
