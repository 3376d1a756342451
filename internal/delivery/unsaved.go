package delivery

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// errLanesLost tells the engine to start the runner again with the lanes that were stored again.
var errLanesLost = errors.New("records of parked lanes were deleted in the store; rewriting them")

// SaveLanes makes every runner store its parked lanes again, because the store has lost all records
// of lanes. It returns before the runners have done so.
func (e *Engine) SaveLanes(ctx context.Context) { e.tell(ctx, change{saveLanes: true}) }

func (e *Engine) saveLanes() {
	for _, s := range e.serving.All() {
		s.runner.mailbox.saveSoon()
	}
	for _, s := range e.replays.serving.All() {
		s.runner.mailbox.saveSoon()
	}
}

// saveLanes stores the parked lanes that no worker is processing, from the runner's state. It does
// not change a lane that was stored after the loss.
func (r *runner) saveLanes(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, recordLimit)
	defer cancel()
	for _, l := range r.lanes.lanes {
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

// unfinished returns the parked lanes with events to send.
func (b *laneTable) unfinished() []model.ParkedEntry {
	var left []model.ParkedEntry
	for _, l := range b.lanes {
		if l.park != nil && !l.park.ended() {
			left = append(left, l.park.ParkedEntry)
		}
	}
	return left
}

// reclaim returns the parked lanes from the store. It ensures that stored records cover everything
// that the previous run acknowledged because of them. Meanwhile another process that believed it
// owned the subscription may have changed a record. If it deleted the record, because it had sent
// all events that it knew, reclaim writes the record again. If it parked the lane at a later event,
// reclaim moves the record back to this process's position. In any case the record gets a new
// revision, so that the other process, too, reads the lane back to its present end (C01).
func (r *runner) reclaim(ctx context.Context) ([]model.ParkedEntry, error) {
	stored, err := r.ports.Lanes.Parked(ctx, r.sub)
	if err != nil {
		return nil, err
	}
	at := make(map[string]int, len(stored))
	for i, e := range stored {
		at[e.Lane] = i
	}
	for _, mine := range r.past.left {
		i, there := at[mine.Lane]
		if there && stored[i].Revision == mine.Revision {
			continue
		}
		if !there {
			mine.Revision = 0
			stored, i = append(stored, mine), len(stored)
		}
		e := &stored[i]
		if mine.FromSeq < e.FromSeq {
			e.Parked = mine.Parked
		}
		if e.Revision, err = r.ports.Lanes.Park(ctx, r.sub, e.Parked, e.Revision); err != nil {
			return nil, err
		}
	}
	r.past.left = nil
	return stored, nil
}
