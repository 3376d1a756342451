package knowledge

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/supervise"
	"github.com/sluice-io/sluice/pkg/sluice"
)

const (
	again      = 200 * time.Millisecond // pause after an error, doubled each time
	againMost  = 10 * time.Second
	pageOfLog  = 1000
	cancelLife = 7 * 24 * time.Hour // of the records of jobs that failed because their mirror was deleted
)

// run follows the sources of a space until ctx ends. When there is room for entries that had none,
// it reads all entries again; meanwhile the space answers from its current state.
func (s *space) run(ctx context.Context) {
	defer s.account.close()
	s.account.force(spaceBytes(s.config.Dimensions))
	for ctx.Err() == nil {
		s.follow(ctx)
		s.load()
	}
}

// follow follows the sources until ctx ends or the entries must be read again. The order of the
// readings:
//
//	log, mirrors ──► all entries known ──► records ──► ready
//
// The followers go on with changes afterwards, and begin again by themselves after an error.
func (s *space) follow(ctx context.Context) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var all sync.WaitGroup
	defer all.Wait()
	for what, follow := range map[string]func(context.Context) error{
		"log": s.followLog, "records": s.followRecords, "mirrors": s.followMirrors, "results": s.fetchWanted,
		"housekeeping": func(ctx context.Context) error { return s.housekeep(ctx, stop) },
	} {
		all.Go(func() { s.keep(ctx, what, follow) })
	}
}

// load notes that all sources must be read.
func (s *space) load() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.readings.restart()
	s.omitted.load()
}

// keep runs a follower until ctx ends, again after each error. follow must be able to begin again.
// It then reads from the start, and the number of the reading shows which entries are gone.
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

// followRecords follows the stored records once all entries are known, because the entries
// determine which records have room. Records that are missing when it begins again were lost with
// their stream; a new stream has lower revisions.
func (s *space) followRecords(ctx context.Context) error {
	for s.entriesLoad() {
		news := s.news()
		if !s.entriesLoad() {
			break
		}
		select {
		case <-news:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	reading, behind := s.beginRecords(), true
	return s.deps.Records.Follow(ctx, s.config.Namespace, func(r Record) {
		if behind {
			s.replace(r, reading)
			return
		}
		s.learn(r)
	}, func() {
		s.lose(reading)
		behind = false
		s.loaded(loadRecords)
	})
}

// entriesLoad reports whether entries have not been read yet.
func (s *space) entriesLoad() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.readings.entriesPending()
}

// fetchWanted reads stored results that are not in memory, of entries that were deleted or changed
// and have come back. It fetches the results of one entry at a time. After an error it puts back that
// entry and those after it.
func (s *space) fetchWanted(ctx context.Context) error {
	for {
		news := s.news()
		wanted := s.takeWanted()
		for i, ref := range wanted {
			if err := s.fetch(ctx, ref); err != nil {
				s.want(wanted[i:])
				return err
			}
		}
		select {
		case <-news:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (s *space) takeWanted() []sluice.EntryRef {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.Collect(maps.Keys(s.wanted))
	clear(s.wanted)
	return all
}

// want puts back entries whose results were not read, unless they are gone.
func (s *space) want(refs []sluice.EntryRef) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, ref := range refs {
		if s.items[ref] != nil {
			s.wanted[ref] = true
		}
	}
}

// fetch reads the results of an entry: its embedding and, if there is one, its comparisons. It enters
// these first, because the embedding would otherwise create their jobs.
func (s *space) fetch(ctx context.Context, ref sluice.EntryRef) error {
	r, err := s.deps.Records.Get(ctx, s.config.Namespace, embeddingID(ref))
	if err != nil {
		return err
	}
	if r.Revision == 0 {
		s.lost(r.ID)
		return nil
	}
	if ref.Source == sluice.SourceLocal {
		all, err := s.deps.Records.Comparisons(ctx, s.config.Namespace, ref.ID)
		if err != nil {
			return err
		}
		for i := range all {
			s.learn(all[i])
		}
	}
	s.restore(r)
	return nil
}

// followLog reads the log from its beginning, and then whenever an event was stored. It also reads
// at intervals, because retention removes events without notice.
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
	at := place{reading: s.begin("")}
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

// place is the progress of reading the log.
type place struct {
	incarnation string
	since       uint64
	reading     uint64
	whole       bool // to its end
}

// readLog reads the log to its end.
func (s *space) readLog(ctx context.Context, at *place) error {
	for {
		page, err := s.changes(ctx, at)
		if err != nil {
			return err
		}
		for i := range page.Items {
			s.take(&page.Items[i], at.reading)
		}
		s.expire(page.FirstSeq)
		atEnd := page.ThroughSeq >= page.LastSeq
		if atEnd && !at.whole {
			s.retain(sluice.SourceLocal, "", at.reading)
			at.whole = true
		}
		if atEnd {
			s.passed = max(s.passed, page.ThroughSeq)
		}
		if atEnd || page.ThroughSeq <= at.since { // or no more can be read now
			at.since = max(at.since, page.ThroughSeq)
			return nil
		}
		at.since = page.ThroughSeq
	}
}

// changes returns the next page of the log, or the first page if the log was replaced.
func (s *space) changes(ctx context.Context, at *place) (sluice.ObservePage, error) {
	page, err := s.deps.Log.Changes(ctx, s.config.Namespace, model.ChangeQuery{Since: at.since, Limit: pageOfLog, Brief: true})
	if err != nil || page.Incarnation == at.incarnation && page.LastSeq >= at.since {
		return page, err
	}
	s.anew(&page, at)
	return s.deps.Log.Changes(ctx, s.config.Namespace, model.ChangeQuery{Limit: pageOfLog})
}

// anew begins to read a log: the first one, or one that replaced it.
func (s *space) anew(page *sluice.ObservePage, at *place) {
	if s.incarnation != "" && (s.incarnation != page.Incarnation || at.since > 0 || page.LastSeq < s.passed) {
		s.renumber()
		s.passed = 0
	}
	s.incarnation = page.Incarnation
	*at = place{incarnation: page.Incarnation, reading: s.begin("")}
}

// take enters a change of the log.
func (s *space) take(c *sluice.Change, reading uint64) {
	ref := sluice.EntryRef{Source: sluice.SourceLocal, ID: c.Key()}
	switch {
	case c.Op == sluice.OpDelete:
		s.drop(ref, c.ErasedSeq)
		if c.Event.Seq > s.passed { // not read before
			s.doubt(erasure{ref, c.ErasedSeq})
		}
	case s.config.Pattern.Match(c.Event.Path):
		s.set(ref, &c.Event, c.Event.Seq, reading)
	}
}

// followMirrors follows the mirrors of the namespace, and the entries of each.
func (s *space) followMirrors(ctx context.Context) error {
	var mirrors supervise.Set[struct{}]
	defer mirrors.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	known := map[string]*sluice.Mirror{}
	gone := func(id string) {
		delete(known, id)
		ended := mirrors.Stop(id)
		mirrors.Go(func() {
			if ended != nil {
				<-ended
			}
			s.forgetMirror(ctx, id)
		})
	}
	return s.deps.Mirrors.Watch(ctx, func(id string, m *sluice.Mirror) {
		switch {
		case id == "":
			for _, id := range s.without(known) { // deleted while this process followed no mirrors
				gone(id)
			}
			s.loaded(loadMirrors)
		case m != nil && m.Namespace == s.config.Namespace:
			was := known[id]
			known[id] = m
			s.meet(m)
			if was != nil && was.UpdatedAt.Equal(m.UpdatedAt) {
				return
			}
			mirrors.Start(ctx, id, func(ctx context.Context) (struct{}, func()) {
				return struct{}{}, func() { s.keep(ctx, "mirror "+id, func(ctx context.Context) error { return s.followMirror(ctx, id) }) }
			})
		case m == nil && s.leave(id):
			gone(id)
		}
	})
}

// meet enters a new or changed mirror. Its entries are then read, because a mirror that was resumed
// may have begun anew.
func (s *space) meet(m *sluice.Mirror) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.readings.meet(m.ID)
	s.mirrors[m.ID] = m
}

// without removes the mirrors that are not among the known ones, and returns them.
func (s *space) without(known map[string]*sluice.Mirror) (ids []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.mirrors {
		if known[id] == nil {
			delete(s.mirrors, id)
			ids = append(ids, id)
		}
	}
	return ids
}

// leave removes a mirror, and reports whether there was one.
func (s *space) leave(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	had := s.mirrors[id] != nil
	delete(s.mirrors, id)
	s.readings.leave(id)
	s.wake()
	return had
}

// followMirror follows the entries of a mirror. It drops entries that a complete reading does not
// find: a mirror that begins anew removes its former entries without a trace in the stream.
func (s *space) followMirror(ctx context.Context, id string) error {
	reading := s.begin(id)
	return s.deps.Mirrors.Follow(ctx, id, func(e *MirrorEntry) { s.takeMirrored(id, e, reading) }, func() {
		s.retain(sluice.SourceMirrored, id, reading)
		s.loaded(id)
	})
}

// takeMirrored enters a change of an entry of a mirror.
func (s *space) takeMirrored(mirror string, e *MirrorEntry, reading uint64) {
	ref := sluice.EntryRef{Source: sluice.SourceMirrored, Subscription: mirror, ID: e.Change.Key()}
	if e.Tombstone {
		s.drop(ref, 0)
		s.doubt(erasure{ref, e.Cursor})
		return
	}
	s.set(ref, &e.Change.Event, e.Cursor, reading)
}

// forgetMirror drops the entries of a deleted mirror. Their pending jobs fail (S3-111); the comparisons
// with them stay (S3-112).
func (s *space) forgetMirror(ctx context.Context, id string) {
	pending := s.abandon(id)
	if !s.deps.Owns.Owns(s.config.Namespace) {
		return
	}
	for _, r := range pending {
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

// abandon drops the entries of a deleted mirror, and returns the records of their pending jobs, of no
// content: if the mirror is created again, its jobs begin anew, with further generations. If it was
// created again meanwhile, abandon drops nothing: the reading of the new one does.
func (s *space) abandon(id string) (pending []Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.omitted.end(id)
	if s.mirrors[id] != nil {
		return nil
	}
	for _, t := range s.tasks {
		if t.kind == sluice.JobEmbedMirrored && t.entry.Subscription == id && t.state != sluice.JobFailed {
			r := Record{ID: t.id, Type: t.kind, Entry: t.entry, Model: s.config.Model}
			if rec := s.records[t.id]; rec != nil {
				r = rec.renewedFor(r.Model, s.items[t.entry].fingerprint)
			}
			r.Embedding, r.Pairs, r.Fingerprint = nil, nil, ""
			pending = append(pending, r)
		}
	}
	s.retainLocked(sluice.SourceMirrored, id, 0)
	return pending
}
