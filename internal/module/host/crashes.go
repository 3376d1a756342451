package host

import (
	"slices"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// maxCrashes is how many events are remembered at which a worker has crashed alone.
const maxCrashes = 1024

// crashes decides which event is to blame when a worker crashes that had several. It is pure: no clock, no processes. Its memory ends
// with the server.
//
//	crashed with several   → all are suspects, and sent again, each alone in a process
//	crashed with one       → its attempt fails, and its later attempts are alone; the suspects beside it are cleared
//	... again, and the worker has handled other events in between → the event is poison
type crashes struct {
	suspects map[string]*suspicion // by event
	alone    map[string]crash      // by event: those at which a worker has crashed alone
	order    []string              // of alone, oldest first
	handled  uint64                // events that a worker has handled
}

// suspicion is shared by the events that a worker had when it crashed.
type suspicion struct{ cleared bool }

// crash is the first crash at an event that was alone.
type crash struct{ handled uint64 }

// blame is the consequence of a crash for an event.
type blame int

const (
	blameNone   blame = iota // it is sent again
	blameFails               // its attempt fails
	blamePoison              // it is given up: workers crash at this event, and at no other
)

func newCrashes() crashes {
	return crashes{suspects: map[string]*suspicion{}, alone: map[string]crash{}}
}

// mustBeAlone reports whether an event is sent to a process that has no other.
func (c *crashes) mustBeAlone(event string) bool {
	if _, ok := c.alone[event]; ok {
		return true
	}
	s := c.suspects[event]
	return s != nil && !s.cleared
}

// crashed enters that a worker crashed with events that it had not answered, and returns the consequence for each of them.
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

// ended enters that an attempt of an event has ended otherwise: it was answered, its time was over, or it was cut off.
func (c *crashes) ended(event string) { delete(c.suspects, event) }

// answered enters that a worker has answered an event, with an outcome.
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
