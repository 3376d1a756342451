package knowledge

import (
	"context"
	"strings"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// mostDoubts limits the doubts of a space, because they take no memory of its account: 1.5 MB.
const mostDoubts = 1 << 12

// doubt notes that an event of an own entry was erased that may have results only in the store. Other
// events of the entry may have results, too, so a sweep asks the store and the log. Beyond mostDoubts,
// the results stay until all records are read.
func (s *space) doubt(ref sluice.EntryRef) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rec := s.records[embeddingID(ref)]
	hidden := s.omitted.unknown > 0 || s.omitted.partial(ref.Subscription) || s.readings.pending()
	if !hidden || s.present(ref) || rec != nil && rec.gone || len(s.doubts) >= mostDoubts {
		return
	}
	ref.ID = strings.Clone(ref.ID) // it is a part of a larger string
	s.doubts[ref] = 0
}

// present reports whether an entry is in memory, or is known to have no room. The caller holds the lock.
func (s *space) present(ref sluice.EntryRef) bool { return s.items[ref] != nil || s.omitted.has(ref) }

// doubted returns doubts that at least after sweeps have found.
func (s *space) doubted(after int) (refs []sluice.EntryRef) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for ref := range s.doubts {
		s.doubts[ref]++
		if s.doubts[ref] >= after && len(refs) < sweepMost {
			refs = append(refs, ref)
		}
	}
	return refs
}

// resolve ends a doubt: if the log has no event of the stored results any more, the owner of the
// namespace removes them. After an error, it tries again after recheckSweeps.
func (s *space) resolve(ctx context.Context, ref sluice.EntryRef) (err error) {
	s.mu.Lock()
	present := s.present(ref)
	s.mu.Unlock()
	if !present && s.deps.Owns.Owns(s.config.Namespace) {
		err = s.purgeErased(ctx, ref)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.doubts[ref] = -recheckSweeps
		return err
	}
	delete(s.doubts, ref)
	return nil
}

// purgeErased removes the stored results of an own entry, if the log does not have their last event.
func (s *space) purgeErased(ctx context.Context, ref sluice.EntryRef) error {
	seq, err := s.lastSeq(ctx, ref)
	if err != nil || seq == 0 {
		return err
	}
	found, err := s.logged(ctx, ref, seq)
	if err != nil || found {
		return err
	}
	return s.purge(ctx, ref)
}
