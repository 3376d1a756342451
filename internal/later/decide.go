package later

import (
	"time"

	"github.com/sluice-io/sluice/internal/instruct"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// step is what is to be done with an event.
type step int

const (
	wait    step = iota // until a time
	publish             // claim it and publish it
	resume              // claim it again and see whether it was published
	finish              // tell how it ended and remove it
)

// moment is who asks, and when.
type moment struct {
	now  time.Time
	me   string // replica
	mine bool   // it is this replica's turn

	others time.Time // when another one was last seen to store events of the lane; zero: it was not
}

// decide returns what to do with an event, and, if that is to wait, until when.
func decide(s *sluice.Scheduled, m moment) (step, time.Time) {
	begin := s.DeliverAt
	if !m.mine { // whoever is at the lane, and behind, comes to this event, too
		begin = later(begin, m.others).Add(instruct.Backup)
	}
	switch {
	case s.Outcome != "":
		return finish, time.Time{}
	case s.Claim != nil:
		until := s.Claim.At.Add(instruct.ClaimFor)
		if s.Claim.By != m.me && m.now.Before(until) {
			return wait, until
		}
		return resume, time.Time{}
	case m.now.Before(begin):
		return wait, begin
	}
	return publish, time.Time{}
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
