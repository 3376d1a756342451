package mirror

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Status returns the state and the progress of a mirror (S3-101). On the replica that owns the
// mirror it includes failures and the next sync, elsewhere only the stored progress.
func (k *Keeper) Status(ctx context.Context, m *sluice.Mirror) (sluice.MirrorStatus, error) {
	held, err := k.deps.Copies.Hold(ctx, m.ID, nil)
	if err != nil {
		return sluice.MirrorStatus{}, fmt.Errorf("read place: %w", err)
	}
	gaps, err := k.deps.Copies.Gaps(ctx, m.ID)
	if err != nil {
		return sluice.MirrorStatus{}, fmt.Errorf("read gaps: %w", err)
	}
	now := k.now().UTC()
	at := held.Place
	st := sluice.MirrorStatus{State: sluice.SyncIdle, Reason: m.Reason, Gaps: gaps}
	k.engine.live(m.ID, &at, &st)
	st.Watermark, st.SourceSeq, st.Incarnation = at.Watermark, at.SourceSeq, at.Incarnation
	st.LagItems, st.LagSeconds = at.lag(m, now)
	st.MirroredCount, st.DeletedCount, st.GapCount = at.Live, at.Deleted, at.Gaps
	if !at.SyncedAt.IsZero() {
		st.LastSyncAt = &at.SyncedAt
	}
	if !at.HeardAt.IsZero() {
		st.HeardAt = &at.HeardAt
	}
	if m.State == sluice.Suspended {
		st.State = sluice.SyncSuspended
	}
	st.Forks, st.Stale = at.Forks, !now.Before(at.staleAt(m))
	st.Sentence = sentence(m, &st, now)
	return st, nil
}

// heardOf returns when a mirror last had news of its source. For a mirror that gets bundles, that
// is the export time of the newest bundle, which may have been imported much later.
func (p *Place) heardOf(m *sluice.Mirror) time.Time {
	switch {
	case m.Imported() && !p.HeardAt.IsZero():
		return p.HeardAt
	case !p.SyncedAt.IsZero():
		return p.SyncedAt
	}
	return m.CreatedAt
}

// staleAt returns the time at which a mirror becomes stale if it has no news of its source until
// then. Being stale means silence only; losses show in the next bundle or page.
func (p *Place) staleAt(m *sluice.Mirror) time.Time {
	patience := 2 * m.PollInterval.Std()
	if !m.Imported() { // not every success is stored
		patience = max(patience, placeEvery)
	}
	return p.heardOf(m).Add(patience)
}

// newlyStale reports whether a mirror is stale, and that was not published yet.
func (p *Place) newlyStale(m *sluice.Mirror, now time.Time) bool {
	return !now.Before(p.staleAt(m)) && !p.StaleTold.Equal(p.heardOf(m))
}

// tellStale publishes that a mirror is stale, if it is, and returns the place of the mirror. It
// publishes once for each period of silence.
func (e *Engine) tellStale(ctx context.Context, m *sluice.Mirror) (Place, error) {
	held, err := e.deps.Copies.Hold(ctx, m.ID, nil)
	if err != nil {
		return Place{}, fmt.Errorf("read place: %w", err)
	}
	at, now := held.Place, e.opts.Now().UTC()
	if !at.newlyStale(m, now) {
		return at, nil
	}
	told, err := e.opened(ctx, m) // the next import finds it and keeps it
	if err == nil && told.newlyStale(m, now) {
		told, err = e.noteStale(ctx, m, told)
	}
	if sluice.CodeOf(err) == sluice.Conflict { // it has heard of its source since
		return at, nil
	}
	return told, err
}

// noteStale publishes that a mirror is stale, and stores that with its place. Code Conflict if the
// mirror is at another place.
func (e *Engine) noteStale(ctx context.Context, m *sluice.Mirror, at Place) (Place, error) {
	heard := at.heardOf(m)
	err := e.deps.Teller.Tell(ctx, m.Namespace, model.SystemEvent{
		Path: sluice.SubscriptionPath(m.ID), Kind: sluice.TypeMirrorStale,
		ID:   "mirror-stale-" + m.ID + "-" + strconv.FormatInt(heard.UnixNano(), 10),
		Data: map[string]any{"subscription": m.ID, "source": m.Source, "heard_at": heard.UTC(), "poll_interval": m.PollInterval, "watermark": at.Watermark, "at": e.opts.Now().UTC()},
	})
	if err != nil {
		return at, fmt.Errorf("publish %s: %w", sluice.TypeMirrorStale, err)
	}
	at.StaleTold = heard
	at.Revision, err = e.deps.Copies.Commit(ctx, m.ID, Commit{Place: at})
	return at, err
}

// untilStale returns the time until a mirror that gets bundles may become stale. If it already is,
// the time is two intervals.
func (m *Stored) untilStale(at *Place, now time.Time) time.Duration {
	if wait := at.staleAt(&m.Mirror).Sub(now); wait > 0 {
		return wait
	}
	return 2 * m.PollInterval.Std()
}

// live adds the state that this process has of a mirror that it syncs.
func (e *Engine) live(id string, at *Place, st *sluice.MirrorStatus) {
	e.mu.Lock()
	defer e.mu.Unlock()
	j := e.mirrors[id]
	if j == nil {
		return
	}
	if seen := &j.seen; seen.Watermark >= at.Watermark && seen.Incarnation == at.Incarnation && seen.SyncedAt.After(at.SyncedAt) {
		*at = *seen
	}
	st.Failures = j.failures
	if st.State = j.state(); st.State == sluice.SyncError {
		st.Error = j.err.Error()
	}
	if j.at >= 0 && !j.record.Imported() {
		due := j.due
		st.NextSyncAt = &due
	}
}

// sentence describes the state of a mirror in a sentence.
func sentence(m *sluice.Mirror, st *sluice.MirrorStatus, now time.Time) string {
	ago := func(t *time.Time) string {
		if t == nil {
			return "never"
		}
		return now.Sub(*t).Round(time.Second).String() + " ago"
	}
	switch st.State {
	case sluice.SyncSuspended:
		return fmt.Sprintf("suspended %s: %s", ago(m.SuspendedAt), m.SuspendDetail)
	case sluice.SyncError:
		return fmt.Sprintf("the last sync failed (%d in a row): %s; the last success was %s", st.Failures, st.Error, ago(st.LastSyncAt))
	case sluice.SyncSyncing, sluice.SyncIdle:
	}
	if st.LastSyncAt == nil && m.Imported() {
		return "no bundle was imported yet; there is no token to pull the source with"
	}
	if st.LastSyncAt == nil {
		return "not synced yet"
	}
	text := fmt.Sprintf("%d entries, %d sequences behind %s; synced %s", st.MirroredCount, st.LagItems, m.Source, ago(st.LastSyncAt))
	if m.Imported() {
		text = fmt.Sprintf("%d entries, through sequence %d of %s; the newest bundle was exported %s", st.MirroredCount, st.Watermark, m.Source, ago(st.HeardAt))
	}
	if st.Stale && m.Imported() {
		text += "; stale: neither a bundle nor a heartbeat for twice the interval"
	}
	if len(st.Forks) > 0 {
		text += fmt.Sprintf("; %d bundles contradict imported ones: ask the source", len(st.Forks))
	}
	if st.GapCount > 0 {
		text += fmt.Sprintf("; %d ranges are missing", st.GapCount)
	}
	return text
}

// lag returns how many sequences of its source a mirror lacks, and for how many seconds it may have
// lacked some: since it was at the end of the source, or since the export of the newest bundle.
func (p *Place) lag(m *sluice.Mirror, now time.Time) (items uint64, seconds float64) {
	complete := p.CaughtUpAt
	if m.Imported() {
		complete = p.HeardAt
	}
	if complete.IsZero() {
		complete = m.CreatedAt
	}
	return p.SourceSeq - min(p.SourceSeq, p.Watermark), max(0, now.Sub(complete).Seconds())
}

// Gauges returns measurements of the mirrors that this process owns. They are in no particular
// order. Gauges makes no request. Known is false until a sync has ended here.
func (e *Engine) Gauges() []model.MirrorGauges {
	now := e.opts.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	all := make([]model.MirrorGauges, 0, len(e.mirrors))
	for id, j := range e.mirrors {
		m := &j.record.Mirror
		if j.record.Gone || !e.deps.Owns.Owns(id) {
			continue
		}
		g := model.MirrorGauges{Namespace: m.Namespace, Mirror: id, State: j.state()}
		if g.Known = j.seen.Revision > 0; g.Known {
			g.LagItems, g.LagSeconds = j.seen.lag(m, now)
		}
		all = append(all, g)
	}
	return all
}

// state returns the sync state of a mirror in this process. The caller holds the lock.
func (j *job) state() sluice.SyncState {
	switch {
	case j.record.State == sluice.Suspended:
		return sluice.SyncSuspended
	case j.done != nil:
		return sluice.SyncSyncing
	case j.err != nil:
		return sluice.SyncError
	}
	return sluice.SyncIdle
}
