package knowledge

import (
	"context"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// sweepMost limits the purges of a sweep.
const sweepMost = 1000

// housekeep removes records without an entry from time to time, on the replica that owns the namespace.
func (s *space) housekeep(ctx context.Context) error {
	tick := time.NewTicker(s.opts.Sweep)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		if s.ready() != nil || !s.deps.Owns.Owns(s.config.Namespace) {
			continue
		}
		if err := s.sweep(ctx); err != nil {
			return err
		}
	}
}

// sweep removes the records that had no entry at the sweep before either: an entry that another replica
// knows already is known here by then.
func (s *space) sweep(ctx context.Context) error {
	for _, id := range s.orphans() {
		if err := s.deps.Records.Purge(ctx, s.config.Namespace, id); err != nil {
			return err
		}
		s.forget(id)
	}
	return nil
}

// orphans returns the ids of records to purge. The comparisons of an entry go together; those of an
// entry that is there stay, as do jobs that failed with their mirror.
func (s *space) orphans() (ids []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	listed := map[string]bool{}
	for id, rec := range s.records {
		_, there := s.items[rec.Entry]
		kept := rec.State == sluice.JobFailed && rec.Entry.Source == sluice.SourceMirrored && s.mirrors[rec.Entry.Subscription] == nil
		if there || kept {
			rec.orphan = false
			continue
		}
		if !rec.orphan {
			rec.orphan = true
			continue
		}
		if rec.Type == sluice.JobCompare {
			id = streams.Comparisons(rec.Entry.ID)
		}
		if !listed[id] && len(ids) < sweepMost {
			listed[id] = true
			ids = append(ids, id)
		}
	}
	return ids
}

// forget removes purged records from memory.
func (s *space) forget(purged string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, rec := range s.records {
		if id == purged || rec.Type == sluice.JobCompare && streams.Comparisons(rec.Entry.ID) == purged {
			if s.items[rec.Entry] == nil {
				delete(s.records, id)
				s.end(id)
			}
		}
	}
}
