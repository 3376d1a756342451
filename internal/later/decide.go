package later

import (
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

const (
	backup   = 2 * time.Second // how long others wait for whoever's turn it is
	claimFor = time.Minute     // after which a claim of somebody else is taken over; longer than publishing may take
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
}

// decide returns what to do with an event, and, if that is to wait, until when.
func decide(s *sluice.Scheduled, m moment) (step, time.Time) {
	begin := s.DeliverAt
	if !m.mine {
		begin = begin.Add(backup)
	}
	switch {
	case s.Outcome != "":
		return finish, time.Time{}
	case s.Claim != nil:
		until := s.Claim.At.Add(claimFor)
		if s.Claim.By != m.me && m.now.Before(until) {
			return wait, until
		}
		return resume, time.Time{}
	case m.now.Before(begin):
		return wait, begin
	}
	return publish, time.Time{}
}

// again returns how long to wait after so many tries.
func again(tries int) time.Duration {
	return min(time.Second<<min(tries, 10), 30*time.Second)
}
