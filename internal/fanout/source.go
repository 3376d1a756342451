package fanout

import (
	"context"
	"sync"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Source hands over the deliveries of one subscription, in the order of the log.
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

// Ended returns a channel that is closed when the source has to be opened again.
func (s *Source) Ended() <-chan struct{} { return s.ended }

// Moved reports whether the subscription has consumers of its own now.
func (s *Source) Moved() bool {
	s.member.log.mu.Lock()
	defer s.member.log.mu.Unlock()
	return s.member.gone
}

// Exhausted returns nil: a log has no end.
func (s *Source) Exhausted() <-chan struct{} { return nil }

// Seen returns the highest sequence that was handed out before the source was opened.
func (s *Source) Seen(sluice.Path) uint64 { return s.seen }

// Floor returns the sequence behind which all events lie that come.
func (s *Source) Floor() uint64 { return s.floor }

// Clean reports whether nothing is stored about earlier deliveries of the events that come: no
// attempts, no parked lanes, no health.
func (s *Source) Clean() bool { return s.clean }

// Past returns how far the latest deliveries came before, by sequence, if that is known to be all that is
// stored about them.
func (s *Source) Past() (progress map[uint64]model.Progress, known bool) {
	return s.past, s.past != nil
}

// Look calls lost for the ranges of events that left the log before they were read, and looks for the
// next event that is wanted.
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

// Rest closes the source if nothing waits, and reports whether it did: the subscription is woken when
// the next event comes. The caller has stored nothing that a runner has to look for.
func (s *Source) Rest() bool {
	m := s.member
	m.log.mu.Lock()
	defer m.log.mu.Unlock()
	if m.source != s || len(m.queue) > 0 || len(m.lost) > 0 {
		return false
	}
	m.source, m.busy = nil, false
	s.end()
	return true
}

// Close closes the source. What was not acknowledged comes again when it is opened anew.
func (s *Source) Close() {
	if wake := s.close(); wake != nil {
		wake()
	}
}

func (s *Source) close() (wake func()) {
	m := s.member
	m.log.mu.Lock()
	defer m.log.mu.Unlock()
	s.end()
	if m.source != s {
		return nil
	}
	m.source, m.busy = nil, true // whether the runner left records is not known
	m.rewind()
	if m.gone {
		return nil
	}
	return m.wake
}

func (s *Source) end() { s.once.Do(func() { close(s.ended) }) }
