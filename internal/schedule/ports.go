package schedule

import (
	"context"
	"log/slog"
	"time"

	"github.com/sluice-io/sluice/internal/ledger"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/schedule/action"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Performer publishes an event with the current rights of its creator.
type Performer interface {
	Perform(ctx context.Context, f action.Firing) (sluice.Stored, error)
	// Find returns where an event was stored at a time or later; the zero value if it was not.
	Find(ctx context.Context, e *sluice.Event, since time.Time) (sluice.Stored, error)
}

// Teller publishes a system event. A repeated call with the same id publishes nothing more.
type Teller interface {
	Tell(ctx context.Context, namespace string, e model.SystemEvent) error
}

// Owner reports whether this replica is responsible for a lane.
type Owner interface {
	Owns(lane string) bool
}

// Observer receives events for metrics.
type Observer interface {
	// Ended reports the outcome of a record that waited for its time, and its delay.
	Ended(what, namespace, outcome string, late time.Duration)
}

// Deps are the dependencies of an engine and of its kind.
type Deps struct {
	Perform Performer
	Tell    Teller
	Owner   Owner
	Ledger  *ledger.Ledger
	Replica string
	Now     func() time.Time
}

// Options are an engine's optional settings.
type Options struct {
	Most    int           // records of a namespace; 0: any number
	Ahead   time.Duration // how far in the future a record may be due; 0: any time
	Log     *slog.Logger  // default: slog.DiscardHandler
	Observe Observer      // nil: none
}

// WithDefaults returns the options with their defaults.
func (o Options) WithDefaults() Options {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}
