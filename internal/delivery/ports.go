package delivery

import (
	"context"
	"time"

	"github.com/sluice-io/sluice/internal/filter"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Source hands over the deliveries of one subscription in log order. Each of its consumers has at
// most the subscription's window of unacknowledged deliveries.
type Source interface {
	Deliveries() <-chan *model.Delivery
	Ended() <-chan struct{}       // closed when the source has to be opened again
	Exhausted() <-chan struct{}   // closed when everything was handed over; nil if the source has no end
	Seen(path sluice.Path) uint64 // highest sequence handed out for the path before the source was opened
	Floor() uint64                // sequence behind which all lie that it hands over

	// Look is Sources.Look for an open source.
	Look(ctx context.Context, wanted func(*sluice.Event) bool, lost func(from, to uint64) error) error
	Close()
}

// Moving is a source that its subscription can leave for another one.
type Moving interface {
	Moved() bool // if it has ended: whether that is why
}

// Log is the store of attempts and dead letters for a runner.
type Log interface {
	// Record stores an attempt and then calls done, from any goroutine, once. It retries until it
	// succeeds or the store is closed, which is the only error passed to done.
	Record(a *sluice.Attempt, namespace string, done func(error))
	// Recover returns the progress of the subscription's latest attempts at events behind a sequence, by sequence.
	Recover(ctx context.Context, sub *sluice.Subscription, after uint64) (map[uint64]model.Progress, error)
	// Bury stores a dead letter and replaces an earlier one of the same delivery. Announcements of
	// letters read the stored one (S2-05).
	Bury(ctx context.Context, d sluice.DeadLetter) error
}

// Lanes keeps the records of parked lanes. Conflict means that another owner wrote the record.
type Lanes interface {
	Parked(ctx context.Context, sub *sluice.Subscription) ([]model.ParkedEntry, error)
	Park(ctx context.Context, sub *sluice.Subscription, p sluice.Parked, revision uint64) (uint64, error)
	Unpark(ctx context.Context, lane string, revision uint64) error
}

// Healths keeps the health of a subscription in trouble; the last write wins.
type Healths interface {
	// Health returns the last stored health; zero if there is none.
	Health(ctx context.Context, sub *sluice.Subscription) (model.Health, error)
	// PutHealth stores a health; a zero one deletes the record.
	PutHealth(ctx context.Context, sub *sluice.Subscription, h model.Health) error
}

// Events reads a lane back: up to limit events of the path (of the whole subscription if the path
// is empty) from a sequence on, ascending, none if there are none yet; and the first sequence that
// the log still holds.
type Events interface {
	ReadLane(ctx context.Context, sub *sluice.Subscription, path sluice.Path, from uint64, limit int) (events []sluice.Event, first uint64, err error)
}

// Sender makes one attempt. It sets everything but the verdict and never fails otherwise. Of more events of a batch
// it sends as many as fit, and names them in the attempt.
type Sender interface {
	Send(ctx context.Context, sub *sluice.Subscription, ev *sluice.Event, number int, more ...*sluice.Event) sluice.Attempt
}

// Gate decides whether an event may leave for a subscription now. It is asked at each attempt,
// right before the request is made, from many goroutines, and does not block.
type Gate interface {
	Decide(sub *sluice.Subscription, ev *sluice.Event, now time.Time) model.Decision
}

// Registry ends subscriptions whose endpoint is gone or has failed for too long, and those that
// lost their access.
type Registry interface {
	Cancel(ctx context.Context, id, reason string) error
	// Revoke ends a subscription that has lost its access, and reports whether it did: not if the subscription has another owner by now.
	Revoke(ctx context.Context, of *sluice.Subscription) (revoked bool, err error)
	Disable(ctx context.Context, id, reason string) error
	// Suspend stops deliveries until the subscription is resumed, because of its demands on the
	// server.
	Suspend(ctx context.Context, id, reason string) error
}

// Sources opens a subscription's source. A missing durable consumer is created.
type Sources interface {
	Open(ctx context.Context, sub *sluice.Subscription) (Source, error)
	// Look calls lost for every range of events that left the log before they were handed out, as
	// far as that can be known, and then remembers the events that wait now.
	Look(ctx context.Context, sub *sluice.Subscription, wanted func(*sluice.Event) bool, lost func(from, to uint64) error) error
}

// Replays keeps the records of replays, and their lanes and attempts.
type Replays interface {
	// Replay returns a replay's stored state.
	Replay(ctx context.Context, rep sluice.Replay) (sluice.Replay, error)
	// Progress changes a stored replay, and repeats change after a conflicting write. A replay that
	// has ended keeps its state.
	Progress(ctx context.Context, rep sluice.Replay, change func(*sluice.Replay)) error
	// Recover is Log.Recover for the attempts of a replay.
	Recover(ctx context.Context, sub *sluice.Subscription, replay string) (map[uint64]model.Progress, error)
	// Parked is Lanes.Parked for lanes with another key prefix.
	Parked(ctx context.Context, sub *sluice.Subscription, lanesOf string) ([]model.ParkedEntry, error)
	// Forget deletes the records of such lanes.
	Forget(ctx context.Context, lanesOf string) error
}

// Letters keeps the dead letters.
type Letters interface {
	// DeadLetters returns up to limit of the subscription's dead letters with sequences in [from,
	// to], ascending.
	DeadLetters(ctx context.Context, sub *sluice.Subscription, from, to uint64, limit int) ([]model.BuriedLetter, error)
	// Unbury deletes the dead letter at a sequence; a missing one is no error.
	Unbury(ctx context.Context, letterSeq uint64) error
}

// Announcer publishes system events. Each call returns at once.
type Announcer interface {
	Held(sub *sluice.Subscription, d *sluice.DeadLetter) // the lane is held, and stored as such, in place of this letter
	Throttled(sub *sluice.Subscription, reason string)   // a limit delayed the subscription
	// Turned says that the subscription's breaker opened or closed.
	Turned(sub *sluice.Subscription, to sluice.Breaker, at time.Time)
	// Failing is Observer.Failing.
	Failing(sub *sluice.Subscription, percent int, since time.Time)
	// StillHeld and StillFailing report states found in the store, whose first announcement may
	// have been lost in a crash.
	StillHeld(sub *sluice.Subscription, d *sluice.DeadLetter)
	StillFailing(sub *sluice.Subscription, percent int, since time.Time)
}

// Causes detects events that caused themselves.
type Causes interface {
	// Check returns code EventLoopDetected if an event must not be sent; any other error means that
	// the answer is unknown. It is asked about events that name a cause.
	Check(ctx context.Context, ev *sluice.Event) error
}

// Catalogue knows the types of events.
type Catalogue interface {
	// Check returns why an event may not be sent: its namespace's catalogue does not allow it.
	Check(ev *sluice.Event) error
}

// Deps are a runner's dependencies.
type Deps struct {
	Sources  Sources
	Log      Log
	Lanes    Lanes
	Healths  Healths
	Events   Events
	Sender   Sender
	Gate     Gate // nil: everything may leave
	Pace     Pace // nil: at any rate
	Registry Registry
	Arrivals Arrivals  // nil: each subscription has a runner all the time
	Replays  Replays   // nil: there are none
	Letters  Letters   // with Replays
	Announce Announcer // nil: no announcements
	Causes   Causes    // nil: no loop check

	Catalogue Catalogue     // nil: every event may be sent
	Labels    filter.Labels // of event types; nil: there are none
	Filters   *filter.Pool  // evaluates expensive filters; nil: one without bounds

	// Payer returns the principal that pays for a subscription's filter; "" is the operator. nil:
	// the operator pays for all.
	Payer func(sub *sluice.Subscription) string

	Lost func(namespace string) []sluice.Gap // ranges of a log that are lost to damage; nil: none are
}

// payer returns the payer of a subscription's filter.
func (p *Deps) payer(sub *sluice.Subscription) filter.Payer {
	payer := filter.Payer{Namespace: sub.Namespace}
	if p.Payer != nil {
		payer.Principal = p.Payer(sub)
	}
	return payer
}

// allowed returns why an event may not be sent, nil if it may.
func (p *Deps) allowed(ev *sluice.Event) error {
	if p.Catalogue == nil {
		return nil
	}
	return p.Catalogue.Check(ev)
}

// Pace holds attempts to the rate that an endpoint agreed to in its handshake, and to the one that a subscription
// shares with others, across all runners.
type Pace interface {
	// Take counts a request to the subscription's endpoint and returns 0, or returns how long to
	// wait.
	Take(sub *sluice.Subscription, now time.Time) time.Duration
	// Return undoes Take for a request that was not sent.
	Return(sub *sluice.Subscription, now time.Time)
}

// Observer receives events for metrics. Each call returns at once.
type Observer interface {
	Matched(sub *sluice.Subscription)
	Attempted(sub *sluice.Subscription, a *sluice.Attempt)
	Buried(sub *sluice.Subscription, reason sluice.Reason)
	// Withheld says that the gate kept an event from the subscription.
	Withheld(sub *sluice.Subscription)
	// Turned says that the subscription's breaker changed its state.
	Turned(sub *sluice.Subscription, to sluice.Breaker)
	// Throttled says that deliveries wait for the rate or for a Retry-After.
	Throttled(sub *sluice.Subscription)
	// Failing says that every attempt has failed since then, and for what percentage of the time
	// after which the subscription is disabled: 50, 70, 90, 100, each at most once.
	Failing(sub *sluice.Subscription, percent int, since time.Time)
}
