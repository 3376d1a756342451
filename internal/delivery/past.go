package delivery

import (
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// past is what was settled or parked before, by earlier runs and processes and by this run.
type past struct {
	left      []model.ParkedEntry       // unfinished lanes of the previous run
	recovered map[uint64]model.Progress // progress at the start according to the attempt log; read-only
	covered   map[string]reach          // by lane that was parked at the start: the sequences that its record covers
	recent    recentSet
}

// reach is the range of sequences that the record of a parked lane covers.
type reach struct{ from, to uint64 }

// settled reports whether a delivery was settled by this run or before a restart.
func (p *past) settled(d *model.Delivery) bool {
	return p.progressOf(&d.Event).Settled || d.Redelivered && p.recent.has(d.Event.Seq)
}

// covers reports whether the record of a lane that was parked at the start covers a sequence.
func (p *past) covers(lane string, seq uint64) bool {
	of := p.covered[lane]
	return of.from <= seq && seq <= of.to
}

// coverSuperseded marks events as covered that need not be sent, because a later one on their path
// was sent before a restart. They may be redelivered, because their acknowledgements may have been
// lost.
func (p *past) coverSuperseded(lanesOf string, ordering sluice.Ordering) {
	for seq, done := range p.recovered {
		if done.SupersedesFrom == 0 {
			continue
		}
		lane := streams.LaneKey(lanesOf, ordering, done.Path, seq)
		of, ok := p.covered[lane]
		if !ok {
			of = reach{done.SupersedesFrom, seq}
		}
		p.covered[lane] = reach{min(of.from, done.SupersedesFrom), max(of.to, seq)}
	}
}

// progressOf returns the event's progress before a restart. It compares the event's id, because a
// log that lost its latest events in a power cut reuses their sequences.
func (p *past) progressOf(ev *sluice.Event) model.Progress {
	if is := p.recovered[ev.Seq]; is.EventID == ev.ID {
		return is
	}
	return model.Progress{}
}

// recentSet remembers the last settled sequences, because a delivery whose acknowledgement is lost
// comes again.
type recentSet struct {
	size int
	ring []uint64
	next int
	set  map[uint64]struct{}
}

func (s *recentSet) add(seq uint64) {
	if s.set == nil {
		s.set = map[uint64]struct{}{}
	}
	if len(s.ring) < s.size {
		s.ring = append(s.ring, seq)
	} else {
		delete(s.set, s.ring[s.next])
		s.ring[s.next] = seq
		s.next = (s.next + 1) % s.size
	}
	s.set[seq] = struct{}{}
}

func (s *recentSet) has(seq uint64) bool {
	_, ok := s.set[seq]
	return ok
}
