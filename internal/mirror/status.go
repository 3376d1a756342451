package mirror

import (
	"context"
	"fmt"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Status returns what a mirror does and how far it has come (S3-101).
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
	st.LagItems, st.MirroredCount = at.SourceSeq-min(at.SourceSeq, at.Watermark), at.Live
	if !at.SyncedAt.IsZero() {
		st.LastSyncAt = &at.SyncedAt
	}
	if !at.HeardAt.IsZero() {
		st.HeardAt = &at.HeardAt
	}
	if m.State == sluice.Suspended {
		st.State = sluice.SyncSuspended
	}
	last := m.CreatedAt
	if st.LastSyncAt != nil {
		last = *st.LastSyncAt
	}
	if m.Imported() && st.HeardAt != nil {
		last = at.HeardAt // a bundle may lie on a shelf
	}
	st.Stale = now.Sub(last) > max(2*m.PollInterval.Std(), placeEvery)
	st.Sentence = sentence(m, &st, now)
	return st, nil
}

// live adds what this process knows of a mirror that it syncs.
func (e *Engine) live(id string, at *Place, st *sluice.MirrorStatus) {
	e.mu.Lock()
	defer e.mu.Unlock()
	j := e.mirrors[id]
	if j == nil {
		return
	}
	if j.place.Watermark >= at.Watermark && j.place.Incarnation == at.Incarnation && j.place.SyncedAt.After(at.SyncedAt) {
		*at = j.place
	}
	st.Failures = j.failures
	switch {
	case j.done != nil:
		st.State = sluice.SyncSyncing
	case j.err != nil:
		st.State, st.Error = sluice.SyncError, j.err.Error()
	}
	if j.at >= 0 {
		due := j.due
		st.NextSyncAt = &due
	}
}

// sentence says what a mirror does.
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
	if len(st.Gaps) > 0 {
		text += fmt.Sprintf("; %d ranges are missing", len(st.Gaps))
	}
	return text
}
