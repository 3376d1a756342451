package knowledge

import (
	"fmt"
	"hash/maphash"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Bytes of memory, as measured by BenchmarkSpace_Memory.
const (
	emptyBytes  = 32 << 10 // of a namespace without entries, besides its rotations
	entryBytes  = 1300     // of an entry with its record and its job, without its strings and its vector
	vectorBytes = 240      // of a vector's sketch and place, besides its elements
	pairBytes   = 900      // of a neighbour of an own entry, with the record and the job of the comparison
	looseBytes  = 700      // of a record without an entry
	missedBytes = 48       // of a note about an entry without room

	mostMissed = 1 << 14 // notes of a namespace

	perVector  = 4 // bytes of an element
	stringsFor = 3 // copies of the id of an entry: its own, and in the ids of its record and its jobs
)

// spaceBytes returns the memory of a namespace without entries, mostly the rotations of two
// indexes.
func spaceBytes(dims int) int64 { return int64(emptyBytes + 24*max(1024, 2*dims)) }

// bytesOf returns the memory that an entry takes, including its future results. So there is room
// for the result of every job that a worker gets.
func (s *space) bytesOf(it *item) int64 {
	n := entryBytes + stringsFor*len(it.ref.ID) + len(it.ref.Subscription) + len(it.path) + len(it.subject) + len(it.label)
	if it.fingerprint != "" {
		n += vectorBytes + perVector*s.config.Dimensions
		if it.ref.Source == sluice.SourceLocal {
			n += s.config.TopK * (pairBytes + 2*len(it.ref.ID))
		}
	}
	return int64(n)
}

// missed holds the entries of a source, the log or a mirror, for which there was no room: hashes of
// their ids, with their sequences. The zero value is not usable.
type missed struct {
	known map[uint64]uint64
	more  bool // than known has
}

// misses returns the missed entries of a source.
func (s *space) misses(mirror string) *missed {
	m := s.missed[mirror]
	if m == nil {
		m = &missed{known: map[uint64]uint64{}}
		s.missed[mirror] = m
	}
	return m
}

// miss notes an entry for which there is no room. The caller holds the lock.
func (s *space) miss(ref sluice.EntryRef, seq uint64) {
	m, key := s.misses(ref.Subscription), maphash.Comparable(s.seed, ref)
	if _, known := m.known[key]; !known {
		if s.notes >= mostMissed {
			m.more = true
			return
		}
		s.noted(1)
	}
	m.known[key] = seq
}

func (s *space) noted(n int) {
	s.notes += n
	s.account.force(missedBytes * int64(n))
}

// unmiss forgets that an entry had no room, and reports whether it was noted. A sequence other than
// 0 must be that of the note. The caller holds the lock.
func (s *space) unmiss(ref sluice.EntryRef, seq uint64) bool {
	m := s.missed[ref.Subscription]
	if m == nil {
		return false
	}
	key := maphash.Comparable(s.seed, ref)
	is, known := m.known[key]
	switch {
	case !known:
		return m.more
	case seq != 0 && is != seq:
		return false
	}
	delete(m.known, key)
	s.noted(-1)
	return true
}

// forgive forgets the missed entries of a source, because the source is read again or is gone.
func (s *space) forgive(mirror string) {
	if m := s.missed[mirror]; m != nil {
		s.noted(-len(m.known))
		delete(s.missed, mirror)
	}
}

// outdate forgets the missed own entries before the first sequence of the log.
func (s *space) outdate(first uint64) {
	m := s.missed[""]
	if m == nil || first <= s.first {
		return
	}
	s.first = first
	for key, seq := range m.known {
		if seq < first {
			delete(m.known, key)
			s.noted(-1)
		}
	}
}

// partial reports whether a source has entries without room.
func (s *space) partial(mirror string) bool {
	m := s.missed[mirror]
	return m != nil && (m.more || len(m.known) > 0)
}

// lacks returns the number of missed entries, and whether there may be more.
func (s *space) lacks() (n int, more bool) {
	for _, m := range s.missed {
		n += len(m.known)
		more = more || m.more
	}
	return n, more
}

// worthReading decides whether all entries are read again to find those that had no room: if there
// is room for all of the missing ones, or for enough of them.
func worthReading(free, lacking, limit int64) bool {
	return lacking > 0 && (limit == 0 || free >= min(lacking, limit/worthOf))
}

const worthOf = 16

// due reports whether the entries must be read again.
func (s *space) due() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reread {
		return true
	}
	n, more := s.lacks()
	lacking := int64(n) * s.bytesOf(&item{fingerprint: "?", ref: sluice.EntryRef{Source: sluice.SourceLocal}})
	if more {
		lacking = max(lacking, s.account.of.limit)
	}
	_, free := s.account.bytes()
	return worthReading(free, lacking, s.account.of.limit)
}

// state returns the status of the namespace on this replica.
func (s *space) state() sluice.EnrichmentStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	is := sluice.EnrichmentStatus{Entries: len(s.items), Embedded: s.local.Len() + s.mirrored.Len()}
	is.NotHeld, is.NotHeldMore = s.lacks()
	is.MemoryBytes, _ = s.account.bytes()
	is.Problem = problem(is.NotHeld, is.NotHeldMore)
	return is
}

// problem describes entries without room, and the remedy; "" if there are none.
func problem(n int, more bool) string { //nolint:revive // more belongs to the number
	if n == 0 && !more {
		return ""
	}
	atLeast := ""
	if more {
		atLeast = "at least "
	}
	return fmt.Sprintf("%s%d entries have no room in the memory of this replica: they get no jobs and are not found; "+
		"raise limits.knowledge_memory, narrow the pattern of the enrichment, or delete entries, and they are read by themselves", atLeast, n)
}
