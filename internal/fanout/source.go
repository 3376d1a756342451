package fanout

import (
	"context"
	"sync"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Source delivers the events of one subscription, in the order of the log. One runner uses it.
type Source struct {
	member *member
	out    chan *model.Delivery
	ended  chan struct{}
	once   sync.Once
	seen   uint64
	floor  uint64
	clean  bool
	past   Past
}

// Deliveries returns the channel of deliveries.
func (s *Source) Deliveries() <-chan *model.Delivery { return s.out }

// Ended returns a channel that is closed when the source ends, and a new one has to be opened.
func (s *Source) Ended() <-chan struct{} { return s.ended }

// Moved reports whether the subscription has left its present place, because it moves to or from
// consumers of its own, or is not served here any more.
func (s *Source) Moved() bool {
	s.member.log.mu.Lock()
	defer s.member.log.mu.Unlock()
	return s.member.gone
}

// Exhausted returns nil, because a log never ends.
func (s *Source) Exhausted() <-chan struct{} { return nil }

// Seen returns the sequence up to which events may have been handed out before the source was
// opened.
func (s *Source) Seen(sluice.Path) uint64 { return s.seen }

// Floor returns the sequence after which all events of the source are.
func (s *Source) Floor() uint64 { return s.floor }

// Clean reports whether the store has no records of earlier deliveries of the source's events: no
// attempts, no parked lanes, no health.
func (s *Source) Clean() bool { return s.clean }

// Past returns the progress of the latest deliveries in earlier processes, by sequence. known is
// false if the runner has to read it from the store.
func (s *Source) Past() (progress map[uint64]model.Progress, known bool) {
	return s.past, s.past != nil
}

// Look searches for the next event that the subscription wants, and calls lost for each range of
// events that left the log before they were read. It reports a range again if lost fails.
func (s *Source) Look(ctx context.Context, wanted func(*sluice.Event) bool, lost func(from, to uint64) error) error {
	l := s.member.log
	if err := l.seek(ctx, s.member, wanted); err != nil {
		return err
	}
	l.mu.Lock()
	gaps := s.member.lost
	s.member.lost = nil
	l.mu.Unlock()
	for i, gap := range gaps {
		if err := lost(gap.from, gap.to); err != nil {
			l.mu.Lock()
			defer l.mu.Unlock()
			s.member.lost = append(gaps[i:], s.member.lost...)
			return err
		}
	}
	return nil
}

// Rest closes the source if no deliveries wait, and reports whether it did. Then the router wakes
// the subscription when the next event comes. Call it only if no records of parked lanes or of the
// endpoint's health are stored.
func (s *Source) Rest() bool {
	m := s.member
	m.log.mu.Lock()
	defer m.log.mu.Unlock()
	if m.source != s || len(m.queue.entries) > 0 || len(m.lost) > 0 {
		return false
	}
	m.source, m.busy = nil, false
	s.end()
	return true
}

// Close closes the source. The next source delivers the unacknowledged events again.
func (s *Source) Close() {
	wake, closed := s.close()
	if closed {
		if later := s.member.bequeath(); later != nil {
			wake = later
		}
	}
	if wake != nil {
		wake()
	}
}

// close closes the source, unless it is closed.
func (s *Source) close() (wake func(), closed bool) {
	m := s.member
	m.log.mu.Lock()
	defer m.log.mu.Unlock()
	s.end()
	if m.source != s {
		return nil, false
	}
	m.source, m.busy = nil, true // the runner may have left records
	m.queue.rewind()
	if m.gone {
		return nil, true
	}
	return m.wake, true
}

// bequeath makes the next runner of the subscription read the stored records if the subscription has
// joined again: the member's runner may have left some since its successor was placed. It returns
// the wake of the successor if that needs a runner.
func (m *member) bequeath() (wake func()) {
	r, id := m.log.router, m.settings().ID
	r.mu.Lock()
	next := r.members[id]
	r.mu.Unlock()
	if next == nil || next == m {
		return nil
	}
	next.log.mu.Lock()
	defer next.log.mu.Unlock()
	next.busy, next.past = true, nil
	if next.placed && next.source == nil {
		wake = next.wake
	}
	return wake
}

func (s *Source) end() { s.once.Do(func() { close(s.ended) }) }
