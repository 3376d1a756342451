package push

import (
	"context"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Source hands over the deliveries of one subscription in the order of the log. A source has no more deliveries unacknowledged than
// the subscription's window for each of its consumers.
type Source interface {
	Deliveries() <-chan *sluice.Delivery
	Ended() <-chan struct{}       // closed when it cannot go on and has to be opened again
	Seen(path sluice.Path) uint64 // highest sequence handed out for the path before the source was opened

	// Look is what Sources.Look is for a subscription that nobody serves.
	Look(ctx context.Context, wanted func(*sluice.Event) bool, lost func(from, to uint64) error) error
	Close()
}

// Log is what a runner reads from and writes to the store about deliveries.
type Log interface {
	// Record stores an attempt and then calls done, from any goroutine, once. It retries
	// until it succeeds or the store is closed, which is the only error done gets.
	Record(a *sluice.Attempt, namespace string, done func(error))
	// Recover returns what the log says about the subscription's latest attempts, by sequence.
	Recover(ctx context.Context, sub *sluice.Subscription) (map[uint64]sluice.Progress, error)
	// Bury stores a dead letter; a second one of the same delivery changes nothing.
	Bury(ctx context.Context, d sluice.DeadLetter) error
}

// Lanes keeps the records of parked lanes. Conflict means that somebody else wrote the record.
type Lanes interface {
	Parked(ctx context.Context, sub *sluice.Subscription) ([]sluice.ParkedEntry, error)
	Park(ctx context.Context, sub *sluice.Subscription, p sluice.Parked, revision uint64) (uint64, error)
	Unpark(ctx context.Context, lane string, revision uint64) error
}

// Events reads a lane back: up to limit events of the path (of the whole subscription if the path is
// empty) from a sequence on, ascending, none if there are none yet; and the first sequence
// that the log still holds.
type Events interface {
	ReadLane(ctx context.Context, sub *sluice.Subscription, path sluice.Path, from uint64, limit int) (events []sluice.Event, first uint64, err error)
}

// Sender makes one attempt. It sets everything but the verdict and never fails otherwise.
type Sender interface {
	Send(ctx context.Context, sub *sluice.Subscription, ev *sluice.Event, number int) sluice.Attempt
}

// Registry ends subscriptions whose endpoint is gone or has failed for too long.
type Registry interface {
	Cancel(ctx context.Context, id, reason string) error
	Disable(ctx context.Context, id, reason string) error
}

// Sources opens a subscription's source. The durable consumer is made if it is missing.
type Sources interface {
	Open(ctx context.Context, sub *sluice.Subscription) (Source, error)
	// Look calls lost for every range of events that left the log and had not been handed
	// out, as far as that can be known, and then remembers what waits now.
	Look(ctx context.Context, sub *sluice.Subscription, wanted func(*sluice.Event) bool, lost func(from, to uint64) error) error
}

// Announcer tells subscribers to system events what happens. Each call returns at once.
type Announcer interface {
	Dead(sub *sluice.Subscription, d *sluice.DeadLetter) // it is stored
	Throttled(sub *sluice.Subscription, reason string)   // a limit held the subscription back
}

// Ports is everything that a runner needs from outside.
type Ports struct {
	Sources  Sources
	Log      Log
	Lanes    Lanes
	Events   Events
	Sender   Sender
	Registry Registry
	Announce Announcer // nobody, if nil
}

// bury stores a dead letter and then announces it: who hears of it finds it (S2-05).
func (p *Ports) bury(ctx context.Context, sub *sluice.Subscription, d sluice.DeadLetter) error {
	if err := p.Log.Bury(ctx, d); err != nil {
		return err
	}
	p.Announce.Dead(sub, &d)
	return nil
}

// Observer is told of what happens, for metrics. Each call returns at once.
type Observer interface {
	Matched(sub *sluice.Subscription)
	Attempted(sub *sluice.Subscription, a *sluice.Attempt)
	Buried(sub *sluice.Subscription, reason sluice.Reason)
}

// Gauges is a moment of one runner.
type Gauges struct {
	Namespace    string
	Subscription string
	InFlight     int
	Held         int
	Parked       int
	Lag          time.Duration // age of the oldest event that is held or parked
}
