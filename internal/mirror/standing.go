package mirror

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluice-io/sluice/internal/shutdown"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// A mirror has a place as long as it exists, and a step is stored only over the place that it was decided for. To
// remove the place, with everything else, therefore ends every sync that is under way on any replica.
//
//	record stored ──► first sync: no place ──► place stored ──► steps
//	record gone   ──► place and entries purged ──► a step finds no place ──► no record: the sync ends
//
// A place names the mirror by its creation: another mirror with the same id begins with a place of its own.

// opened returns the stored place of a mirror, and stores one if there is none. Code SubscriptionMissing if
// the mirror was deleted.
func (e *Engine) opened(ctx context.Context, m *sluice.Mirror) (Place, error) {
	held, err := e.deps.Copies.Hold(ctx, m.ID, nil)
	if err != nil {
		return Place{}, fmt.Errorf("read place: %w", err)
	}
	if held.Place.Revision > 0 && held.Place.Of.Equal(m.CreatedAt) {
		return held.Place, nil
	}
	if err := e.stands(ctx, m); err != nil {
		return Place{}, err
	}
	if held.Place.Revision > 0 { // of a mirror that had the id before
		if err := e.deps.Copies.Purge(ctx, m.ID); err != nil {
			return Place{}, fmt.Errorf("remove what another mirror left: %w", err)
		}
	}
	at := Place{Of: m.CreatedAt, Begun: e.keeper.now().UTC()}
	if at.Revision, err = e.deps.Copies.Commit(ctx, m.ID, Commit{Place: at}); err != nil {
		return Place{}, fmt.Errorf("store place: %w", err)
	}
	if err := e.stands(ctx, m); err != nil { // it was deleted meanwhile: the place may have come after the purge
		if sluice.CodeOf(err) == sluice.SubscriptionMissing {
			err = errors.Join(err, e.deps.Copies.Purge(shutdown.Lasting(ctx), m.ID))
		}
		return Place{}, err
	}
	return at, nil
}

// stands returns an error unless a mirror is stored. Code SubscriptionMissing.
func (e *Engine) stands(ctx context.Context, m *sluice.Mirror) error {
	record, err := e.keeper.get(ctx, m.ID)
	if err == nil && !record.CreatedAt.Equal(m.CreatedAt) {
		return sluice.Errorf(sluice.Conflict, "the mirror was deleted and created again")
	}
	return err
}

// superseded reports whether a mirror has changed since a record of it was read, as far as this process
// knows: it may be suspended, or deleted.
func (e *Engine) superseded(m *sluice.Mirror) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	j := e.mirrors[m.ID]
	if j == nil || j.record.Revision <= m.Revision {
		return false
	}
	return j.record.Gone || !j.record.UpdatedAt.Equal(m.UpdatedAt) || !j.record.CreatedAt.Equal(m.CreatedAt)
}

// latest returns the last record of a mirror that this process has, of two.
func (e *Engine) latest(m *Stored) *Stored {
	e.mu.Lock()
	defer e.mu.Unlock()
	if j := e.mirrors[m.ID]; j != nil && j.record.Revision > m.Revision && j.record.CreatedAt.Equal(m.CreatedAt) {
		return j.record
	}
	return m
}
