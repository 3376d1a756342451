package appointment

import (
	"context"

	"github.com/sluice-io/sluice/internal/keylock"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Serial serializes the creation of a namespace's appointments, so that the limit holds: an
// appointment is counted once it is stored.
type Serial struct {
	*Engine

	turns keylock.Turns[string]
}

// NewSerial returns an engine whose creations are serialized.
func NewSerial(engine *Engine) *Serial { return &Serial{Engine: engine} }

// Set creates an appointment.
func (s *Serial) Set(ctx context.Context, is sluice.Appointment, may func(was *sluice.Appointment) error) (sluice.Appointment, bool, error) {
	done, err := s.turns.Take(ctx, is.Namespace)
	if err != nil {
		return is, false, err
	}
	defer done()
	return s.Engine.Set(ctx, is, may)
}
