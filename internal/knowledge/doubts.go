package knowledge

import (
	"context"
	"strings"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// mostDoubts limits the doubts of a space about entries of each kind, because they are not counted in
// its account. They take at most 1.5 MB.
const mostDoubts = 1 << 12

// erasure is that of an event of an own entry, or the tombstone of a mirrored one.
type erasure struct {
	ref sluice.EntryRef
	seq uint64 // that the event had, or the cursor of the tombstone
}

// doubts are erasures that may have left results only in the store, by the source of their entries,
// with the number of their sweeps.
type doubts map[string]map[erasure]int

func newDoubts() doubts { return doubts{sluice.SourceLocal: {}, sluice.SourceMirrored: {}} }

// add adds a doubt. Beyond mostDoubts, it replaces another one.
func (d doubts) add(of erasure) {
	all := d[of.ref.Source]
	if _, known := all[of]; !known && len(all) >= mostDoubts {
		for other := range all {
			delete(all, other)
			break
		}
	}
	all[of] = 0
}

// doubt notes an erasure that may have left results only in the store. Other events of the entry may
// have results, too, so a sweep asks the store and the log, or the mirror. The results of a doubt that
// another one replaces stay until all records are read.
func (s *space) doubt(of erasure) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rec := s.records[embeddingID(of.ref)]
	hidden := s.omitted.unknown > 0 || s.omitted.partial(of.ref.Subscription) || s.readings.pending()
	if !hidden || s.present(of.ref) || rec != nil && rec.gone {
		return
	}
	of.ref.ID = strings.Clone(of.ref.ID) // it is a part of a larger string
	s.doubts.add(of)
}

// present reports whether an entry is in memory, or is known to have no room. The caller holds the lock.
func (s *space) present(ref sluice.EntryRef) bool { return s.items[ref] != nil || s.omitted.has(ref) }

// doubted returns doubts that at least after sweeps have found.
func (s *space) doubted(after int) (found []erasure) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, all := range s.doubts {
		for of := range all {
			all[of]++
			if all[of] >= after && len(found) < sweepMost {
				found = append(found, of)
			}
		}
	}
	return found
}

// resolve ends a doubt: the owner of the namespace removes the results of what was erased. After an
// error, later sweeps try again. The results of a deleted mirror are not those of its tombstones.
func (s *space) resolve(ctx context.Context, of erasure) (err error) {
	s.mu.Lock()
	idle := s.present(of.ref) || of.ref.Source == sluice.SourceMirrored && s.mirrors[of.ref.Subscription] == nil
	s.mu.Unlock()
	if !idle && s.deps.Owns.Owns(s.config.Namespace) {
		err = s.purgeErased(ctx, of)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.doubts.add(of) // the others come first
		return err
	}
	delete(s.doubts[of.ref.Source], of)
	return nil
}

// purgeErased removes the stored results of an entry, if they are those of what was erased.
func (s *space) purgeErased(ctx context.Context, of erasure) error {
	left := s.leftByEvent
	if of.ref.Source == sluice.SourceMirrored {
		left = s.leftByTombstone
	}
	if is, err := left(ctx, of); err != nil || !is {
		return err
	}
	return s.purge(ctx, of.ref)
}

// leftByEvent reports whether an own entry has stored results, and their last event is the erased one
// or not in the log. The log may have the erased one for a while, because its record is stored first.
func (s *space) leftByEvent(ctx context.Context, of erasure) (bool, error) {
	seq, err := s.lastSeq(ctx, of.ref)
	if err != nil || seq == 0 || seq == of.seq {
		return seq != 0 && err == nil, err
	}
	found, err := s.logged(ctx, of.ref, seq)
	return err == nil && !found, err
}

// leftByTombstone reports whether a mirrored entry has stored results, and has not come back. The mirror
// may be read from a replica that is behind.
func (s *space) leftByTombstone(ctx context.Context, of erasure) (bool, error) {
	r, err := s.deps.Records.Get(ctx, s.config.Namespace, embeddingID(of.ref))
	if err != nil || r.Revision == 0 {
		return false, err
	}
	entries, err := s.deps.Mirrors.Entries(ctx, of.ref.Subscription, []string{of.ref.ID})
	e, ok := entries[of.ref.ID]
	return err == nil && (!ok || e.Tombstone || e.Cursor < of.seq), err
}
