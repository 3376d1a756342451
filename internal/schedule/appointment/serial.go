package appointment

import (
	"context"

	"github.com/sluice-io/sluice/internal/keylock"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Serial is an Engine that executes one Set of a namespace at a time, so that concurrent creations
// cannot exceed the namespace's limit.
type Serial struct {
	*Engine

	turns keylock.Turns[string]
}

// NewSerial returns an engine whose creations are serialized.
func NewSerial(engine *Engine) *Serial { return &Serial{Engine: engine} }

// Set is Engine.Set, after earlier calls for the namespace have returned.
func (s *Serial) Set(ctx context.Context, is sluice.Appointment, may func(was *sluice.Appointment) error) (sluice.Appointment, bool, error) {
	done, err := s.turns.Take(ctx, is.Namespace)
	if err != nil {
		return is, false, err
	}
	defer done()
	return s.Engine.Set(ctx, is, may)
}
