package delivery

import (
	"context"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/supervise"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Ownership reports which subscriptions this process serves.
type Ownership interface {
	supervise.Ownership
	// Holding returns what the process owns at this moment. then reports whether a lease key
	// (model.LeaseKey) belongs to it, and never changes. still reports whether the process has also
	// owned the key without a break since.
	Holding() (then, still func(key string) bool)
}

// review applies all subscriptions and replays, because ownership may have changed. It alone lets
// the engine gain work. All its decisions use the ownership of one moment, and later ones the part
// of it that was kept since. So a shard that the process acquires does not exist for the engine
// before a review, which joins all its subscriptions, and a commit never finds a part of a shard: the
// shard's cursor would pass the events of the others. A loss counts at once, except for a review
// that has begun, which ends with the whole shard. The work of a shard that was lost ends first, also
// if it was acquired again: another process may have served it in between.
func (e *Engine) review(ctx context.Context, all map[string]*sluice.Subscription) {
	e.dropLost(all)
	then, still := e.owns.Holding()
	e.owned = then
	for _, sub := range all {
		e.apply(ctx, sub)
	}
	for _, rep := range e.replays.all {
		e.applyReplay(ctx, rep, all[rep.Subscription])
	}
	e.commit()
	e.owned = still
}

// dropLost stops the work of the subscriptions that the process has not owned without a break since
// the last review.
func (e *Engine) dropLost(all map[string]*sluice.Subscription) {
	for _, sub := range all {
		if !e.owned(model.LeaseKey(sub)) {
			e.stop(sub)
		}
	}
	for _, rep := range e.replays.all {
		if sub := all[rep.Subscription]; sub != nil && !e.owned(model.LeaseKey(sub)) {
			e.replays.serving.Stop(rep.ID)
		}
	}
}
