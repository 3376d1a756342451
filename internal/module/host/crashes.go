package host

import (
	"slices"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// maxCrashes limits the remembered events at which a worker crashed while it had no other event.
const maxCrashes = 1024

// crashes decides which event is to blame when a worker crashes. It has no clock and no processes.
// It remembers crashes as long as its pool exists.
//
//	crashed with several   → all are suspects, and sent again, each alone in a process
//	crashed with one       → its attempt fails, and its later attempts are alone; the suspects beside it are cleared
//	... again, and the worker has handled other events in between → the event is poison
//
// The pool's lock guards it. Memory is bounded by maxCrashes and the events in flight.
type crashes struct {
	suspects map[string]*suspicion // by event
	alone    map[string]crash      // by event: crashes of workers that had no other event
	order    []string              // of alone, oldest first
	handled  uint64                // number of events that workers have delivered
}

// suspicion is shared by all events that a worker had when it crashed.
type suspicion struct{ cleared bool }

// crash is the first crash of a worker that had only this event. Handled is the count at that time.
type crash struct{ handled uint64 }

// blame is the consequence of a crash for an event.
type blame int

const (
	blameNone   blame = iota // it is sent again
	blameFails               // its attempt fails
	blamePoison              // it is refused: workers crash at this event but handle others
)

func newCrashes() crashes {
	return crashes{suspects: map[string]*suspicion{}, alone: map[string]crash{}}
}

// mustBeAlone reports whether an event must be sent to a worker that has no other event.
func (c *crashes) mustBeAlone(event string) bool {
	if _, ok := c.alone[event]; ok {
		return true
	}
	s := c.suspects[event]
	return s != nil && !s.cleared
}

// crashed records the crash of a worker with its unanswered events, and returns the consequence,
// which is the same for each of them. events must not be empty.
func (c *crashes) crashed(events []string) blame {
	if len(events) != 1 {
		s := &suspicion{}
		for _, event := range events {
			c.suspects[event] = s
		}
		return blameNone
	}
	event := events[0]
	if s := c.suspects[event]; s != nil {
		s.cleared = true
		delete(c.suspects, event)
	}
	first, again := c.alone[event]
	switch {
	case !again:
		c.remember(event)
	case c.handled > first.handled:
		c.forget(event)
		return blamePoison
	}
	return blameFails
}

// ended records that an attempt ended without a crash: by an answer, a timeout or a cancellation.
func (c *crashes) ended(event string) { delete(c.suspects, event) }

// answered records that a worker has answered an event with an outcome.
func (c *crashes) answered(event string, outcome sluice.Outcome) {
	if outcome == sluice.Delivered {
		c.handled++
	}
	c.ended(event)
	c.forget(event)
}

func (c *crashes) remember(event string) {
	if len(c.order) == maxCrashes {
		c.forget(c.order[0])
	}
	c.alone[event] = crash{handled: c.handled}
	c.order = append(c.order, event)
}

func (c *crashes) forget(event string) {
	if _, ok := c.alone[event]; !ok {
		return
	}
	delete(c.alone, event)
	c.order = slices.DeleteFunc(c.order, func(other string) bool { return other == event })
}
