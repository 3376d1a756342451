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

// Performer publishes an event with its creator's present rights.
type Performer interface {
	Perform(ctx context.Context, f action.Firing) (sluice.Stored, error)
	// Find returns an event's place; the zero place if it is not stored.
	Find(ctx context.Context, e *sluice.Event) (sluice.Stored, error)
}

// Teller publishes a system event; a repeated id is published once.
type Teller interface {
	Tell(ctx context.Context, namespace string, e model.SystemEvent) error
}

// Owner decides which replica is responsible.
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
	Ahead   time.Duration // maximum distance of the time; 0: none
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
