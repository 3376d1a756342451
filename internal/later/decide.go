package later

import (
	"time"

	"github.com/sluice-io/sluice/internal/instruct"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// poll is how soon it is looked again whether somebody else has done what is claimed.
const poll = 20 * time.Millisecond

// step is what is to be done with an event.
type step int

const (
	wait    step = iota // until a time
	hold                // wait a moment, and what comes after it, too: somebody else is at it
	publish             // claim it and publish it
	resume              // claim it again and see whether it was published
	finish              // tell how it ended and remove it
)

// moment is who asks, and when.
type moment struct {
	now   time.Time
	me    string        // replica
	grace time.Duration // how long to wait for whoever's turn it is; 0: it is ours
}

// decide returns what to do with an event, and, if that is to wait, until when.
func decide(s *sluice.Scheduled, m moment) (step, time.Time) {
	begin := s.DeliverAt.Add(m.grace)
	switch {
	case s.Outcome != "":
		return finish, time.Time{}
	case s.Claim != nil:
		until := s.Claim.At.Add(instruct.ClaimFor)
		switch {
		case s.Claim.By == m.me || !m.now.Before(until):
		case m.now.Before(s.Claim.At.Add(instruct.HoldFor)):
			return hold, m.now.Add(poll)
		default:
			return wait, until
		}
		return resume, time.Time{}
	case m.now.Before(begin):
		return wait, begin
	}
	return publish, time.Time{}
}
