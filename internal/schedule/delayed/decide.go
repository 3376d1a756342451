package delayed

import (
	"time"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/schedule/action"
)

// poll is the interval of checks on a record that another replica has claimed.
const poll = 20 * time.Millisecond

// step is the next step for an event.
type step int

const (
	wait    step = iota // until a time
	hold                // wait until a time, and hold the later events of the lane: another replica is responsible
	publish             // claim it and publish it
	resume              // claim it again and check whether it was published
	finish              // announce its end and remove it
)

// moment is the replica and the time of a decision.
type moment struct {
	now   time.Time
	me    string        // replica
	grace time.Duration // how long to wait for the responsible replica; 0: this one is

	others time.Time // when another replica was last seen to store events of the lane; zero: never
}

// decide returns the next step for an event, and, if that is to wait, until when.
func decide(s *model.Scheduled, m moment) (step, time.Time) {
	begin := s.DeliverAt
	if m.grace > 0 { // a replica that works on the lane, but is late, will reach this event too
		begin = later(begin, m.others).Add(m.grace)
	}
	switch {
	case s.Outcome != "":
		return finish, time.Time{}
	case s.Claim != nil:
		until := s.Claim.At.Add(action.ClaimFor)
		switch {
		case s.Claim.By == m.me || !m.now.Before(until):
		case m.now.Before(s.Claim.At.Add(action.HoldFor)):
			return hold, m.now.Add(poll)
		default:
			return wait, until
		}
		return resume, time.Time{}
	case m.now.Before(s.DeliverAt):
		return wait, s.DeliverAt
	case m.now.Before(begin): // keeps the order if this replica becomes responsible meanwhile
		return hold, begin
	}
	return publish, time.Time{}
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
