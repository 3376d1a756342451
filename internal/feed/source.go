package feed

import (
	"context"
	"fmt"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Log is a namespace's events, in their order.
type Log interface {
	// Ends returns the first and the last sequence that is kept, as the leader knows them. Code NotFound.
	Ends(ctx context.Context, namespace string) (first, last uint64, err error)
	// Page returns events behind a place whose paths a pattern may match, and up to where there are no others; that
	// is upTo at least, unless there are more than a page has. The log reached upTo before. Code WindowExceeded, with
	// oldest_available_seq and current_seq, if what comes behind the place is no longer kept.
	Page(ctx context.Context, namespace string, pattern sluice.Pattern, after, upTo uint64) (events []sluice.Event, reached uint64, err error)
	// Tail calls each for the events behind a place and then as they come, until it returns an error, ctx ends or
	// there is trouble.
	Tail(ctx context.Context, namespace string, after uint64, each func(sluice.Event) error) error
	// Place returns the sequence behind which a cursor lies. Codes NotFound; WindowExceeded.
	Place(ctx context.Context, namespace, cursor string) (uint64, error)
}

// batch is how many items are looked at before the reader may have them.
const batch = 128

// source is a place in a log that moves forward: over pages of the log, until the ring covers it.
type source struct {
	log       Log
	ring      *ring
	namespace string
	pattern   sluice.Pattern
	place     uint64 // everything up to it was returned
	live      bool   // the ring covered it once
	scratch   [batch]*Item
}

// next returns the next items, each once and in their order; if there are none, what is closed when there are.
// Without either, it is to be asked again. An error is the end.
func (s *source) next(ctx context.Context) (items []*Item, more <-chan struct{}, err error) {
	t, err := s.ring.take(s.place, s.scratch[:0])
	if err != nil {
		return nil, nil, err
	}
	if t.covered {
		s.live = true
		s.place = max(s.place, t.head) // unless there are items
		if len(t.items) > 0 {
			s.place = t.items[len(t.items)-1].Event.Seq
		}
		return t.items, t.changed, nil
	}
	events, reached, err := s.log.Page(ctx, s.namespace, s.pattern, s.place, t.base)
	switch code := sluice.CodeOf(err); {
	case code == sluice.WindowExceeded, code == sluice.NotFound:
		return nil, nil, err
	case err != nil:
		return nil, nil, fmt.Errorf("%w: %w", sluice.Errorf(sluice.Unavailable, "the log cannot be read at the moment; ask again, behind the last sequence"), err)
	}
	items = make([]*Item, 0, len(events))
	for i := range events {
		if seq := events[i].Seq; seq > s.place {
			items = append(items, NewItem(events[i]))
			s.place = seq
		}
	}
	s.place = max(s.place, reached)
	return items, nil, nil
}

// covered reports whether the ring still has everything behind the place.
func (s *source) covered() bool { return s.ring.covers(s.place) }
