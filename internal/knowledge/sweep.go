package knowledge

import (
	"context"
	"log/slog"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

const (
	sweepMost    = 1000 // entries of a sweep
	ownersSweeps = 2    // sweeps without an entry until its records are purged
	othersSweeps = 20
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
// this replica knows every entry that another one knew. A replica that does not own the namespace
// only forgets them, and does so much later, because it may be the next owner.
func (s *space) sweep(ctx context.Context) error {
	owner, after := s.deps.Owns.Owns(s.config.Namespace), othersSweeps
	if owner {
		after = ownersSweeps
	}
	for _, ref := range s.orphans(after) {
		for _, id := range purges(ref) {
			if !owner {
				break
			}
			if err := s.deps.Records.Purge(ctx, s.config.Namespace, id); err != nil {
				return err
			}
		}
		s.forget(ref)
	}
	return nil
}

// purges returns the ids, or beginnings of ids, of an entry's records.
func purges(ref sluice.EntryRef) []string {
	if ref.Source == sluice.SourceLocal {
		return []string{embeddingID(ref), streams.Comparisons(ref.ID)}
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
	for id, rec := range s.records {
		if !rec.loose || s.outlives(&rec.Record) {
			rec.orphan = 0
			continue
		}
		if s.omitted.partial(rec.Entry.Subscription) && !rec.gone {
			s.discard(id)
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
