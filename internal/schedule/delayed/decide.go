package delayed

import (
	"time"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/schedule/action"
)

// poll is how soon it is looked again whether somebody else has done what is claimed.
const poll = 20 * time.Millisecond

// step is what is to be done with an event.
type step int

const (
	wait    step = iota // until a time
	hold                // wait until a time, and what comes after it, too: somebody else is at it, or is to be
	publish             // claim it and publish it
	resume              // claim it again and see whether it was published
	finish              // tell how it ended and remove it
)

// moment is who asks, and when.
type moment struct {
	now   time.Time
	me    string        // replica
	grace time.Duration // how long to wait for whoever's turn it is; 0: it is ours

	others time.Time // when another one was last seen to store events of the lane; zero: it was not
}

// decide returns what to do with an event, and, if that is to wait, until when.
func decide(s *model.Scheduled, m moment) (step, time.Time) {
	begin := s.DeliverAt
	if m.grace > 0 { // whoever is at the lane, and behind, comes to this event, too
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
	case m.now.Before(begin): // if it becomes our turn meanwhile, what comes after this one comes after it
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
