package push

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// errLanesLost tells the engine to begin anew with the lanes that were stored again.
var errLanesLost = errors.New("the records of parked lanes were deleted in the store and are written again")

// SaveLanes has every runner store its parked lanes again: the store has lost all records of lanes. It returns when the
// runners are told.
func (e *Engine) SaveLanes(ctx context.Context) { e.tell(ctx, change{saveLanes: true}) }

func (e *Engine) saveLanes() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range e.serving {
		s.runner.saveSoon()
	}
	for _, s := range e.replays.serving {
		s.runner.saveSoon()
	}
}

// saveSoon has the runner store its parked lanes again.
func (r *runner) saveSoon() {
	select {
	case r.unsaved <- struct{}{}:
	default: // it is about to
	}
}

// saveLanes stores the parked lanes that no worker has, as they are known here. A lane that was stored since it was lost stays
// as it is stored.
func (r *runner) saveLanes(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, recordLimit)
	defer cancel()
	for _, l := range r.book.lanes {
		if l.park == nil || l.park.leaving || l.busy {
			continue
		}
		_, err := r.ports.Lanes.Park(ctx, r.sub, l.park.Parked, 0)
		if err != nil && sluice.CodeOf(err) != sluice.Conflict {
			return fmt.Errorf("subscription %s: lane %s: %w", r.id, l.key, err)
		}
	}
	return nil
}
