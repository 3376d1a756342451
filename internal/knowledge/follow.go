package knowledge

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/supervise"
	"github.com/sluice-io/sluice/pkg/sluice"
)

const (
	again      = 200 * time.Millisecond // after trouble, doubled each time
	againMost  = 10 * time.Second
	pageOfLog  = 1000
	cancelLife = 7 * 24 * time.Hour // of the records of jobs that failed because their mirror was deleted
)

// run follows everything that a space is made of, until ctx ends.
func (s *space) run(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	for what, follow := range map[string]func(context.Context) error{
		"log": s.followLog, "records": s.followRecords, "mirrors": s.followMirrors, "housekeeping": s.housekeep,
	} {
		all.Go(func() { s.keep(ctx, what, follow) })
	}
}

// keep runs a follower, again after trouble, until ctx ends.
func (s *space) keep(ctx context.Context, what string, follow func(context.Context) error) {
	pause := supervise.Pause{First: again, Most: againMost}
	for {
		began := s.opts.Now()
		err := follow(ctx)
		if ctx.Err() != nil {
			return
		}
		s.opts.Log.LogAttrs(ctx, slog.LevelWarn, "enrichment", slog.String("namespace", s.config.Namespace), slog.String("follows", what), slog.Any("error", err))
		if s.opts.Now().Sub(began) > againMost {
			pause.Reset()
		}
		if !pause.Wait(ctx) {
			return
		}
	}
}

// followRecords follows the stored records. Those that are not there any more when it begins again were
// lost with their stream, and the revisions of a stream that was made anew are lower.
func (s *space) followRecords(ctx context.Context) error {
	seen := map[string]bool{}
	return s.deps.Records.Follow(ctx, s.config.Namespace, func(r Record) {
		if seen != nil {
			seen[r.ID] = true
			s.replace(r)
			return
		}
		s.learn(r)
	}, func() {
		s.lose(seen)
		seen = nil
		s.loaded(loadRecords)
	})
}

// followLog reads the log from its beginning, and then whenever something was stored; from time to time
// anyway, because retention removes events in silence.
func (s *space) followLog(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	news := make(chan struct{}, 1)
	var follower sync.WaitGroup
	defer follower.Wait()
	follower.Go(func() {
		stop(s.deps.Log.FollowChanges(ctx, s.config.Namespace, func() {
			select {
			case news <- struct{}{}:
			default:
			}
		}))
	})
	defer stop(nil)
	tick := time.NewTicker(s.opts.Sweep)
	defer tick.Stop()
	var at place
	for {
		if err := s.readLog(ctx, &at); err != nil {
			return err
		}
		s.loaded(loadLog)
		select {
		case <-news:
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// place is how far the log was read.
type place struct {
	incarnation string
	since       uint64
}

// readLog reads the log to its end.
func (s *space) readLog(ctx context.Context, at *place) error {
	for {
		page, err := s.deps.Log.Changes(ctx, s.config.Namespace, model.ChangeQuery{Since: at.since, Limit: pageOfLog, Brief: true})
		if err != nil {
			return err
		}
		if page.Incarnation != at.incarnation || page.LastSeq < at.since { // another log: nothing of it is known
			*at = place{incarnation: page.Incarnation}
			s.retain(sluice.SourceLocal, "", nil)
			if page, err = s.deps.Log.Changes(ctx, s.config.Namespace, model.ChangeQuery{Limit: pageOfLog}); err != nil {
				return err
			}
		}
		for i := range page.Items {
			s.take(&page.Items[i])
		}
		s.expire(page.FirstSeq)
		if page.ThroughSeq <= at.since || page.ThroughSeq >= page.LastSeq { // or nothing more can be read now
			at.since = max(at.since, page.ThroughSeq)
			return nil
		}
		at.since = page.ThroughSeq
	}
}

// take enters a change of the log.
func (s *space) take(c *sluice.Change) {
	ref := sluice.EntryRef{Source: sluice.SourceLocal, ID: c.Key()}
	switch {
	case c.Op == sluice.OpDelete:
		s.drop(ref, c.ErasedSeq)
	case s.config.Pattern.Match(c.Event.Path):
		s.set(ref, &c.Event, c.Event.Seq)
	}
}

// followMirrors follows the mirrors of the namespace, and the entries of each.
func (s *space) followMirrors(ctx context.Context) error {
	var mirrors supervise.Set[struct{}]
	defer mirrors.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	return s.deps.Mirrors.Watch(ctx, func(id string, m *sluice.Mirror) {
		switch {
		case id == "":
			s.loaded(loadMirrors)
		case m != nil && m.Namespace == s.config.Namespace:
			if !s.meet(m) {
				return
			}
			mirrors.Start(ctx, id, func(ctx context.Context) (struct{}, func()) {
				return struct{}{}, func() { s.keep(ctx, "mirror "+id, func(ctx context.Context) error { return s.followMirror(ctx, id) }) }
			})
		case m == nil && s.leave(id):
			gone := mirrors.Stop(id)
			mirrors.Go(func() {
				<-gone
				s.forgetMirror(ctx, id)
			})
		}
	})
}

// meet enters a mirror, and reports whether its entries must be read: it is new, or was changed, and a
// mirror that was resumed may have begun anew.
func (s *space) meet(m *sluice.Mirror) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.mirrors[m.ID]
	if was == nil && s.loading[loadMirrors] {
		s.loading[m.ID] = true
	}
	s.mirrors[m.ID] = m
	return was == nil || !was.UpdatedAt.Equal(m.UpdatedAt)
}

// leave removes a mirror, and reports whether there was one.
func (s *space) leave(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	had := s.mirrors[id] != nil
	delete(s.mirrors, id)
	delete(s.loading, id)
	return had
}

// followMirror follows the entries of a mirror. Those that are not there any more were removed all at
// once, which leaves no trace in the stream.
func (s *space) followMirror(ctx context.Context, id string) error {
	seen := map[string]bool{}
	return s.deps.Mirrors.Follow(ctx, id, func(e *MirrorEntry) {
		ref := sluice.EntryRef{Source: sluice.SourceMirrored, Subscription: id, ID: e.Change.Key()}
		if seen != nil {
			seen[ref.ID] = true
		}
		if e.Tombstone {
			s.drop(ref, 0)
			return
		}
		s.set(ref, &e.Change.Event, e.Cursor)
	}, func() {
		s.retain(sluice.SourceMirrored, id, seen)
		seen = nil
		s.loaded(id)
	})
}

// forgetMirror drops the entries of a deleted mirror. Their pending jobs fail (S3-111); the comparisons
// with them stay (S3-112).
func (s *space) forgetMirror(ctx context.Context, id string) {
	s.mu.Lock()
	var pending []Record
	for _, t := range s.tasks {
		if t.kind == sluice.JobEmbedMirrored && t.entry.Subscription == id && t.state != sluice.JobFailed {
			r := Record{ID: t.id, Type: t.kind, Entry: t.entry, Model: s.config.Model, Fingerprint: s.items[t.entry].fingerprint}
			if rec := s.records[t.id]; rec != nil {
				r = rec.renewedFor(r.Model, r.Fingerprint)
			}
			pending = append(pending, r)
		}
	}
	s.mu.Unlock()
	s.retain(sluice.SourceMirrored, id, nil)
	if !s.deps.Owns.Owns(s.config.Namespace) {
		return
	}
	for _, r := range pending {
		r.Embedding, r.Pairs = nil, nil
		r = r.failed(Failure{mirrorDeleted, true}, 0, 0, s.opts.Now())
		revision, err := s.deps.Records.Put(ctx, s.config.Namespace, r, cancelLife)
		if err != nil {
			s.opts.Log.LogAttrs(ctx, slog.LevelWarn, "job of a deleted mirror not marked as failed",
				slog.String("namespace", s.config.Namespace), slog.String("job", r.ID), slog.Any("error", err))
			continue
		}
		r.Revision = revision
		s.learn(r)
	}
}
