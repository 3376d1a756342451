package knowledge

import (
	"fmt"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Bytes of memory, as measured by BenchmarkSpace_Memory.
const (
	emptyBytes  = 32 << 10 // of a namespace without entries, besides its rotations
	entryBytes  = 1300     // of an entry with its record and its job, without its strings and its vector
	vectorBytes = 240      // of a vector's sketch and place, besides its elements
	pairBytes   = 900      // of a neighbour of an own entry, with the record and the job of the comparison
	looseBytes  = 700      // of a record without an entry

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

// due reports whether the entries must be read again.
func (s *space) due() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.omitted.due(s.bytesOf(&item{fingerprint: "?", ref: sluice.EntryRef{Source: sluice.SourceLocal}}))
}

// state returns the status of the namespace on this replica. Other replicas may have room for more
// or fewer entries.
func (s *space) state() sluice.EnrichmentStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	is := sluice.EnrichmentStatus{Entries: len(s.items), Embedded: s.local.Len() + s.mirrored.Len()}
	is.NotHeld, is.NotHeldMore = s.omitted.count()
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
