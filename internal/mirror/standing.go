package mirror

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluice-io/sluice/internal/shutdown"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// A mirror has a place as long as it exists, and a step is stored only if the place is still the
// one for which the step was decided. Removing the place, with everything else, therefore ends
// every sync in progress on any replica.
//
//	record stored ──► first sync: no place ──► place stored ──► steps
//	record gone   ──► place and entries purged ──► a step finds no place ──► no record: the sync ends
//
// A place names the mirror by its creation, or by the time at which it was begun anew: another
// mirror with the same id, or the same one after its origin was replaced, begins with a place of
// its own. Only messages older than that place are removed, so any number of replicas may do it at
// any time.

// opened returns the stored place of a mirror, and stores a new one if there is none. Code
// SubscriptionMissing if the mirror was deleted.
func (e *Engine) opened(ctx context.Context, m *sluice.Mirror) (Place, error) {
	held, err := e.deps.Copies.Hold(ctx, m.ID, nil)
	if err != nil {
		return Place{}, fmt.Errorf("read place: %w", err)
	}
	if held.Place.Revision > 0 && held.Place.Of.Equal(m.Begun()) {
		return held.Place, nil
	}
	if err := e.stands(ctx, m); err != nil {
		return Place{}, err
	}
	if left := held.Place.Revision; left > 0 { // of a mirror that had the id before, or of another log
		if err := e.deps.Copies.Purge(ctx, m.ID, left); err != nil {
			return Place{}, fmt.Errorf("remove what another mirror left: %w", err)
		}
	}
	at := Place{Of: m.Begun(), Begun: e.keeper.now().UTC()}
	if at.Revision, err = e.deps.Copies.Commit(ctx, m.ID, Commit{Place: at}); err != nil {
		return Place{}, fmt.Errorf("store place: %w", err)
	}
	if err := e.stands(ctx, m); err != nil { // it was deleted meanwhile: the place may have been stored after the purge
		if sluice.CodeOf(err) == sluice.SubscriptionMissing {
			err = errors.Join(err, e.deps.Copies.Purge(shutdown.Lasting(ctx), m.ID, at.Revision))
		}
		return Place{}, err
	}
	return at, nil
}

// stands returns an error unless the stored mirror is the one of a record: not deleted, created
// again or begun anew. Codes SubscriptionMissing, Conflict.
func (e *Engine) stands(ctx context.Context, m *sluice.Mirror) error {
	record, err := e.keeper.get(ctx, m.ID)
	if err == nil && !record.Begun().Equal(m.Begun()) {
		e.job(&record) // it may be on its way here
		return sluice.Errorf(sluice.Conflict, "the mirror was created again, or begun anew")
	}
	return err
}

// clear removes the place and the entries of a deleted mirror. It spares a new mirror with the same
// id.
func (e *Engine) clear(ctx context.Context, m *sluice.Mirror) error {
	for {
		held, err := e.deps.Copies.Hold(ctx, m.ID, nil)
		if err != nil {
			return fmt.Errorf("read place: %w", err)
		}
		if held.Place.Revision == 0 || held.Place.Of.After(m.Begun()) {
			return nil
		}
		if err := e.deps.Copies.Purge(ctx, m.ID, held.Place.Revision); err != nil {
			return fmt.Errorf("remove entries: %w", err)
		}
	}
}

// superseded reports whether this process knows a later record of a mirror, which may be suspended
// or deleted by now.
func (e *Engine) superseded(m *sluice.Mirror) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	j := e.mirrors[m.ID]
	if j == nil || j.record.Revision <= m.Revision {
		return false
	}
	return j.record.Gone || !j.record.UpdatedAt.Equal(m.UpdatedAt) || !j.record.CreatedAt.Equal(m.CreatedAt)
}

// latest returns the later of two records of a mirror: the given one and the one that this process
// has.
func (e *Engine) latest(m *Stored) *Stored {
	e.mu.Lock()
	defer e.mu.Unlock()
	if j := e.mirrors[m.ID]; j != nil && j.record.Revision > m.Revision && j.record.CreatedAt.Equal(m.CreatedAt) {
		return j.record
	}
	return m
}
