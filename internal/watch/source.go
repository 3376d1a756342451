package watch

import (
	"context"

	"github.com/sluice-io/sluice/internal/logtail/ringbuffer"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// batch is how many events are taken from the ring in one step.
const batch = 128

// source is a position in a log that moves forward. It reads pages of the log until the ring covers
// the position, and then the ring. It is not safe for concurrent use.
type source struct {
	log       Log
	ring      *ringbuffer.Ring[sluice.Event]
	namespace string
	pattern   sluice.Pattern
	place     uint64 // everything up to it was returned
	scratch   [batch]sluice.Event
}

// next returns the next events, each once and in order, or a channel that is closed when there are
// some. If it returns neither, call it again. Events on paths that do not match the pattern may be
// among them. Code WindowExceeded if the next events are no longer stored. After any other error,
// the caller needs a new source. The events are valid until the next call, which uses the same
// memory.
func (s *source) next(ctx context.Context) (events []sluice.Event, more <-chan struct{}, err error) {
	t, err := s.ring.Take(s.place, s.scratch[:0])
	if err != nil {
		return nil, nil, err
	}
	if t.Covered {
		if len(t.Items) > 0 {
			s.place = t.Items[len(t.Items)-1].Seq
		}
		return t.Items, t.Changed, nil
	}
	events, reached, err := s.log.Page(ctx, s.namespace, s.pattern, s.place, s.ring.From())
	if err != nil {
		return nil, nil, err
	}
	behind := events[:0]
	for i := range events {
		if events[i].Seq > s.place {
			behind = append(behind, events[i])
			s.place = events[i].Seq
		}
	}
	s.place = max(s.place, reached)
	return behind, nil, nil
}
