package fanout

import (
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Open opens the source of a subscription that has joined, and ends an earlier one. For a
// subscription with consumers of its own it returns no source, but a channel that is closed when
// that changes. Codes: NotFound if the subscription has not joined; Unavailable if its position is
// not known yet.
func (r *Router) Open(sub *sluice.Subscription) (s *Source, moved <-chan struct{}, err error) {
	r.mu.Lock()
	m := r.members[sub.ID]
	r.mu.Unlock()
	if m == nil {
		return nil, nil, sluice.Errorf(sluice.NotFound, "subscription %q is not served here", sub.ID)
	}
	m.log.mu.Lock()
	defer m.log.mu.Unlock()
	if !m.placed || m.gone {
		return nil, nil, sluice.Errorf(sluice.Unavailable, "the position of subscription %q is not known yet", sub.ID)
	}
	if m.own {
		return nil, m.moved, nil
	}
	if m.source != nil {
		m.source.end()
		m.queue.rewind()
	}
	s = &Source{member: m, out: make(chan *model.Delivery, m.window()), ended: make(chan struct{}), clean: m.clean(), past: m.past, seen: max(m.after, m.doubt), floor: m.floor(m.log.pos)}
	m.source, m.past = s, nil
	m.hand()
	return s, nil, nil
}

// Serves reports whether a subscription has joined and is not known to have consumers of its own:
// it gets its events from the shared reader, or may do so soon.
func (r *Router) Serves(sub *sluice.Subscription) bool {
	r.mu.Lock()
	m := r.members[sub.ID]
	r.mu.Unlock()
	if m == nil {
		return false
	}
	m.log.mu.Lock()
	defer m.log.mu.Unlock()
	return !m.own
}

// Standing is the present progress of a subscription that this replica serves.
type Standing struct {
	Floor  uint64 // all events up to here are settled or parked
	Handed uint64 // all events up to here were handed out or are not wanted
	Open   int    // deliveries in progress
}

// Standing returns the progress of a subscription, and false if this replica does not serve it, or
// it has consumers of its own.
func (r *Router) Standing(sub *sluice.Subscription) (Standing, bool) {
	r.mu.Lock()
	m := r.members[sub.ID]
	r.mu.Unlock()
	if m == nil {
		return Standing{}, false
	}
	m.log.mu.Lock()
	defer m.log.mu.Unlock()
	if !m.placed || m.own || !m.sub.Began().Equal(sub.Began()) {
		return Standing{}, false
	}
	s := Standing{Floor: m.floor(m.log.pos), Handed: m.after, Open: m.queue.unacked}
	switch waiting := m.queue.waiting(); {
	case len(waiting) > 0:
		s.Handed = waiting[0].Event.Seq - 1
		for _, e := range waiting {
			if !e.acked {
				s.Open--
			}
		}
	case m.live:
		s.Handed = max(m.after, m.log.pos)
	}
	return s, true
}
