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
	ownersSweeps = 2    // without an entry, until its records are purged
	othersSweeps = 20
)

// housekeep removes records without an entry from time to time. When there is room for entries that had
// none, it has all of them read again.
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

// loads reports whether something is being read.
func (s *space) loads() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.loading) > 0
}

// report logs that entries have no room, once, and that all have room again.
func (s *space) report(ctx context.Context) {
	is := s.state()
	s.mu.Lock()
	was := s.told
	s.told = is.Problem != ""
	now := s.told
	s.mu.Unlock()
	switch {
	case now && !was:
		s.opts.Log.LogAttrs(ctx, slog.LevelWarn, "enrichment is incomplete", slog.String("namespace", s.config.Namespace), slog.Int("entries", is.Entries),
			slog.Int("not_held", is.NotHeld), slog.Int64("bytes", is.MemoryBytes), slog.String("problem", is.Problem))
	case was && !now:
		s.opts.Log.LogAttrs(ctx, slog.LevelInfo, "enrichment is complete again", slog.String("namespace", s.config.Namespace), slog.Int("entries", is.Entries))
	}
}

// sweep removes the records that had no entry at the sweep before either: an entry that another replica
// knows already is known here by then. A replica that does not own the namespace only forgets them, much
// later: it may be the next owner.
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

// purges returns the ids of an entry's records, or the beginnings of them.
func purges(ref sluice.EntryRef) []string {
	if ref.Source == sluice.SourceLocal {
		return []string{embeddingID(ref), streams.Comparisons(ref.ID)}
	}
	return []string{embeddingID(ref)}
}

// orphans returns the entries with records that had none at so many sweeps. The comparisons with an entry
// stay, as do jobs that failed with their mirror. While entries of a source have no room, a record
// without an entry may be one of theirs: only those of entries that were deleted are returned.
func (s *space) orphans(after int) (refs []sluice.EntryRef) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, rec := range s.records {
		if !rec.loose || s.outlives(&rec.Record) {
			rec.orphan = 0
			continue
		}
		if s.partial(rec.Entry.Subscription) && !rec.gone {
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
