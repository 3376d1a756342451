package schedule

import (
	"sync"
	"time"
)

const (
	maxJump = 5 * time.Second  // more is no correction of a clock that runs a little fast or slow
	settle  = 30 * time.Second // how long a clock that has jumped is not believed: who set it by mistake sets it back
)

// reading is what the clock says, and how long the server has been running by a clock that nobody sets.
type reading struct {
	wall time.Time
	ran  time.Duration
}

// Doubt is the times of day that passed, or did not, while the clock could not be believed.
type Doubt struct{ From, Until time.Time }

// Covers reports whether a time is one of those.
func (d Doubt) Covers(at time.Time) bool { return !at.Before(d.From) && at.Before(d.Until) }

// trust is what is known of a clock: how far it was at the last reading, and whether it is to be believed.
type trust struct {
	last  reading
	until time.Duration // it is not believed before; by the clock that nobody sets
	doubt Doubt
}

// after returns what is known after another reading, and whether the clock has jumped since the one before. A machine that slept looks the
// same: while it does, the clock that nobody sets stands still.
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
	if was.ran < t.until && t.doubt.From.Before(from) { // it is set once more
		from = t.doubt.From
	}
	t.until, t.doubt = r.ran+settle, Doubt{from, r.wall.Add(settle)}
	return t, true
}

// doubted reports whether the clock is not to be believed at the moment of the last reading.
func (t trust) doubted() bool { return t.last.ran < t.until }

// clock reads the clock. Its methods may be called at once.
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

// doubted reads the clock, and reports whether it is not to be believed at the moment.
func (c *clock) doubted() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	var jumped bool
	if c.trust, jumped = c.trust.after(reading{now.Round(0), now.Sub(c.began)}); jumped { // which is by the clock that nobody sets, if now has it
		c.jumps++
	}
	return c.trust.doubted()
}

// jumped returns how often the clock was seen to jump.
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
