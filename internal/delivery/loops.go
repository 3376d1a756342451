package delivery

import (
	"context"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// looped returns in cause why an event must not be sent because it is part of a loop; nil if it may
// be sent. It retries until there is an answer, because nothing is sent unchecked. err is not nil
// only if ctx ends.
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
