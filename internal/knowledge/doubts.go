package knowledge

import (
	"context"
	"strings"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// mostDoubts limits the doubts of a space, because they take no memory of its account: 1.5 MB.
const mostDoubts = 1 << 12

// erasure is that of an event of an own entry.
type erasure struct {
	ref sluice.EntryRef
	seq uint64 // that the event had
}

// doubt notes that an event of an own entry was erased that may have results only in the store. Other
// events of the entry may have results, too, so a sweep asks the store and the log. Beyond mostDoubts,
// a new doubt replaces another one, whose results stay until all records are read.
func (s *space) doubt(of erasure) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rec := s.records[embeddingID(of.ref)]
	hidden := s.omitted.unknown > 0 || s.omitted.partial(of.ref.Subscription) || s.readings.pending()
	if !hidden || s.present(of.ref) || rec != nil && rec.gone {
		return
	}
	of.ref.ID = strings.Clone(of.ref.ID) // it is a part of a larger string
	s.doubts[of] = 0
	for other := range s.doubts {
		if len(s.doubts) <= mostDoubts {
			break
		}
		if other != of {
			delete(s.doubts, other)
		}
	}
}

// present reports whether an entry is in memory, or is known to have no room. The caller holds the lock.
func (s *space) present(ref sluice.EntryRef) bool { return s.items[ref] != nil || s.omitted.has(ref) }

// doubted returns doubts that at least after sweeps have found.
func (s *space) doubted(after int) (all []erasure) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for of := range s.doubts {
		s.doubts[of]++
		if s.doubts[of] >= after && len(all) < sweepMost {
			all = append(all, of)
		}
	}
	return all
}

// resolve ends a doubt: if the event of the stored results was erased, or the log does not have it, the
// owner of the namespace removes them. After an error, later sweeps try again.
func (s *space) resolve(ctx context.Context, of erasure) (err error) {
	s.mu.Lock()
	present := s.present(of.ref)
	s.mu.Unlock()
	if !present && s.deps.Owns.Owns(s.config.Namespace) {
		err = s.purgeErased(ctx, of)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.doubts[of] = 0 // the others come first
		return err
	}
	delete(s.doubts, of)
	return nil
}

// purgeErased removes the stored results of an own entry, if their last event is the erased one or not
// in the log. The log may have the erased one for a while, because its record is stored first.
func (s *space) purgeErased(ctx context.Context, of erasure) error {
	seq, err := s.lastSeq(ctx, of.ref)
	if err != nil || seq == 0 {
		return err
	}
	if seq != of.seq {
		found, err := s.logged(ctx, of.ref, seq)
		if err != nil || found {
			return err
		}
	}
	return s.purge(ctx, of.ref)
}
