package loopguard

import (
	"context"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Reactions refuses causation loops among events that the server publishes in reaction to others.
type Reactions struct{ Guard *Guard }

// CheckNew returns an error if one of the events is part of a causation loop.
func (r Reactions) CheckNew(ctx context.Context, namespace, by string, events []sluice.Event) error {
	for i := range events {
		if err := r.Guard.CheckReaction(ctx, namespace, by, &events[i]); err != nil {
			return err
		}
	}
	return nil
}
