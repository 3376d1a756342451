package knowledge

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

const (
	sweepMost    = 1000 // entries of a sweep
	ownersSweeps = 2    // sweeps without an entry until its records are purged
	othersSweeps = 20

	// recheckSweeps is the number of sweeps after which the log is asked again about an event outside
	// the pattern: an hour.
	recheckSweeps = 240
)

// housekeep removes records without an entry at intervals. When there is room for entries that had
// none, it calls again, which starts a new reading.
func (s *space) housekeep(ctx context.Context, again func()) error {
	tick := time.NewTicker(s.opts.Sweep)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		if s.ready() != nil || s.loads() {
			continue
		}
		s.report(ctx)
		if s.due() {
			again()
			return nil
		}
		if err := s.sweep(ctx); err != nil {
			return err
		}
	}
}

// loads reports whether a source is being read.
func (s *space) loads() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.readings.pending()
}

// report logs once that entries have no room, and once that all have room again.
func (s *space) report(ctx context.Context) {
	is := s.state()
	s.mu.Lock()
	now := is.Problem != ""
	was := s.omitted.tell(now)
	s.mu.Unlock()
	switch {
	case now && !was:
		s.opts.Log.LogAttrs(ctx, slog.LevelWarn, "enrichment is incomplete", slog.String("namespace", s.config.Namespace), slog.Int("entries", is.Entries),
			slog.Int("not_held", is.NotHeld), slog.Int64("bytes", is.MemoryBytes), slog.String("problem", is.Problem))
	case was && !now:
		s.opts.Log.LogAttrs(ctx, slog.LevelInfo, "enrichment is complete again", slog.String("namespace", s.config.Namespace), slog.Int("entries", is.Entries))
	}
}

// sweep removes the records that have had no entry at several consecutive sweeps, by which time
// this replica knows every entry that another one knew, unless the entry is an event outside the
// pattern. A replica that does not own the namespace only forgets them, and does so much later,
// because it may be the next owner.
func (s *space) sweep(ctx context.Context) error {
	owner, after := s.deps.Owns.Owns(s.config.Namespace), othersSweeps
	if owner {
		after = ownersSweeps
	}
	for _, ref := range s.orphans(after) {
		stays, err := s.stays(ctx, ref)
		if err == nil && !stays && owner {
			err = s.purge(ctx, ref)
		}
		if err != nil {
			return err
		}
		if !stays {
			s.forget(ref)
		}
	}
	for _, ref := range s.doubted(after) {
		if err := s.resolve(ctx, ref); err != nil {
			return err
		}
	}
	return nil
}

// purge removes the stored records of an entry.
func (s *space) purge(ctx context.Context, ref sluice.EntryRef) error {
	for _, id := range purges(ref) {
		if err := s.deps.Records.Purge(ctx, s.config.Namespace, id); err != nil {
			return err
		}
	}
	return nil
}

// stays reports whether the records of a missing entry stay, because the entry is an event in the
// log: only the pattern leaves it out. Then, and after an error, the log is asked again after
// recheckSweeps, so that no record holds up the others.
func (s *space) stays(ctx context.Context, ref sluice.EntryRef) (bool, error) {
	s.mu.Lock()
	rec, unknown := s.records[embeddingID(ref)], s.omitted.unknown > 0
	known, seq := rec == nil || !rec.loose, uint64(0) // the entry came back
	if !known && !rec.gone && ref.Source == sluice.SourceLocal {
		seq = rec.Seq
	}
	s.mu.Unlock()
	if known || seq == 0 {
		return known, nil
	}
	found, err := s.logged(ctx, ref, seq)
	if err == nil && !found && unknown { // the record in memory may not stand for all
		if seq, err = s.lastSeq(ctx, ref); err == nil {
			found, err = s.logged(ctx, ref, seq)
		}
	}
	if err == nil && !found {
		return false, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	rec.orphan = -recheckSweeps
	return true, err
}

// logged reports whether the log has the event of an own entry at a sequence.
func (s *space) logged(ctx context.Context, ref sluice.EntryRef, seq uint64) (bool, error) {
	item, err := s.content(ctx, ref, seq)
	if errors.Is(err, errSkip) {
		return false, nil
	}
	return err == nil && item.Change.Key() == ref.ID, err // the log may be another one
}

// lastSeq returns the last sequence in the stored records of an own entry; 0 if it has no embedding.
func (s *space) lastSeq(ctx context.Context, ref sluice.EntryRef) (uint64, error) {
	is, err := s.deps.Records.Get(ctx, s.config.Namespace, embeddingID(ref))
	if err != nil || is.Revision == 0 {
		return 0, err
	}
	all, err := s.deps.Records.Comparisons(ctx, s.config.Namespace, ref.ID)
	for i := range all {
		is.Seq = max(is.Seq, all[i].Seq)
	}
	return is.Seq, err
}

// purges returns the ids, or beginnings of ids, of an entry's records. The embedding is the last one:
// without it, the others are not looked for.
func purges(ref sluice.EntryRef) []string {
	if ref.Source == sluice.SourceLocal {
		return []string{streams.Comparisons(ref.ID), embeddingID(ref)}
	}
	return []string{embeddingID(ref)}
}

// orphans returns the keys of missing entries whose records had no entry at after consecutive
// sweeps. Comparisons with a deleted entry stay, as do jobs that failed with their mirror. While
// entries of a source have no room, a record without an entry may belong to one of them, so then
// only entries that are known to be deleted are returned.
func (s *space) orphans(after int) (refs []sluice.EntryRef) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, rec := range s.records {
		if !rec.loose || s.outlives(&rec.Record) {
			rec.orphan = 0
			continue
		}
		if s.omitted.partial(rec.Entry.Subscription) && !rec.gone {
			s.overlook(rec)
			continue
		}
		rec.orphan++
		if rec.orphan >= after && len(refs) < sweepMost {
			refs = append(refs, rec.Entry)
		}
	}
	return refs
}

// forget removes the record of an entry from memory, unless it came back.
func (s *space) forget(ref sluice.EntryRef) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.items[ref] == nil {
		s.discard(embeddingID(ref))
		s.end(embeddingID(ref))
	}
}
