package delivery

import (
	"context"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// looped returns why an event must not be sent because of its causes, nil if it may be. It asks
// until there is an answer: nothing is sent unchecked.
func (j job) looped(ctx context.Context, ev *sluice.Event) (cause, err error) {
	if j.r.ports.Causes == nil || ev.Extensions[sluice.CausationID] == "" {
		return nil, nil
	}
	err = j.persist(ctx, func() error {
		cause = j.r.ports.Causes.Check(ctx, ev)
		if sluice.CodeOf(cause) == sluice.EventLoopDetected {
			return nil
		}
		err := cause
		cause = nil
		return err
	})
	return cause, err
}
