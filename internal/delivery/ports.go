package delivery

import (
	"context"
	"time"

	"github.com/sluice-io/sluice/internal/filter"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Source delivers the events of one subscription in log order. Each consumer behind it has at most
// one window of unacknowledged deliveries.
type Source interface {
	Deliveries() <-chan *model.Delivery
	Ended() <-chan struct{}       // closed when a new source has to be opened
	Exhausted() <-chan struct{}   // closed when everything was handed out; nil if the source has no end
	Seen(path sluice.Path) uint64 // highest sequence handed out for the path before the source was opened
	Floor() uint64                // sequence after which all events of the source are

	// Look is Sources.Look for an open source.
	Look(ctx context.Context, wanted func(*sluice.Event) bool, lost func(from, to uint64) error) error
	Close()
}

// Moving is a source whose subscription can move to another source.
type Moving interface {
	Moved() bool // reports whether a source that has ended did so for that reason
}

// Log is the store of attempts and dead letters for a runner.
type Log interface {
	// Record stores an attempt, and then calls done once, from any goroutine. It retries until it
	// succeeds or the store is closed; then done gets an error.
	Record(a *sluice.Attempt, namespace string, done func(error))
	// Recover returns the progress of the subscription's latest attempts at events behind a sequence, by sequence.
	// What may be delivered again without being parked is behind floor.
	Recover(ctx context.Context, sub *sluice.Subscription, after, floor uint64) (map[uint64]model.Progress, error)
	// Bury stores a dead letter, in place of an earlier one of the same delivery. The announcement
	// of a letter reads the stored one (S2-05).
	Bury(ctx context.Context, d sluice.DeadLetter) error
}

// Lanes stores the records of parked lanes by compare-and-set. Code Conflict means that another
// owner wrote the record.
type Lanes interface {
	Parked(ctx context.Context, sub *sluice.Subscription) ([]model.ParkedEntry, error)
	Park(ctx context.Context, sub *sluice.Subscription, p sluice.Parked, revision uint64) (uint64, error)
	Unpark(ctx context.Context, lane string, revision uint64) error
}

// Healths stores the health of subscriptions in trouble; the last write wins.
type Healths interface {
	// Health returns the last stored health; zero if there is none.
	Health(ctx context.Context, sub *sluice.Subscription) (model.Health, error)
	// PutHealth stores a health. The zero health deletes the record.
	PutHealth(ctx context.Context, sub *sluice.Subscription, h model.Health) error
}

// Events reads lanes back. ReadLane returns up to limit events of the path (of the whole
// subscription if the path is empty) from a sequence on, ascending, and the first sequence that the
// log still holds. An event with an error must not be sent.
type Events interface {
	ReadLane(ctx context.Context, sub *sluice.Subscription, path sluice.Path, from uint64, limit int) (events []model.ReadEvent, first uint64, err error)
}

// Sender makes one attempt. A failure is an outcome of the attempt; Send sets all its fields except
// the verdict. Without an outcome, no attempt was made, and a later one has the same number. Of the
// events in more it sends as many as fit, and names them in the attempt.
type Sender interface {
	Send(ctx context.Context, sub *sluice.Subscription, ev *sluice.Event, number int, more ...*sluice.Event) sluice.Attempt
}

// Gate decides whether an event may leave for a subscription now. The engine asks it at each
// attempt, immediately before the request, from many goroutines. Decide must not block.
type Gate interface {
	Decide(sub *sluice.Subscription, ev *sluice.Event, now time.Time) model.Decision
}

// Registry ends subscriptions whose endpoint is gone or has failed for too long, and those that
// lost their access.
//
// The stored subscription may have got other settings than those of an attempt, or may be a later one
// of the same id. The methods do nothing if their reason does not concern it any more.
type Registry interface {
	// Cancel ends a subscription whose endpoint is gone. It calls first before. If the subscription
	// has another endpoint by now, it does nothing and returns false.
	Cancel(ctx context.Context, of *sluice.Subscription, first func() error) (cancelled bool, err error)
	// Revoke ends a subscription that has lost its access. If the subscription has another owner by
	// now, it does nothing and returns false.
	Revoke(ctx context.Context, of *sluice.Subscription) (revoked bool, err error)
	// DisableFailing stops deliveries until the subscription is resumed, because its attempts have
	// failed for too long.
	DisableFailing(ctx context.Context, of *sluice.Subscription, reason string) error
	// SuspendCostly stops deliveries until the subscription is resumed, because its filter costs too
	// much.
	SuspendCostly(ctx context.Context, of *sluice.Subscription, reason string) error
}

// Sources opens a subscription's source. Open creates the durable consumer if it is missing.
type Sources interface {
	Open(ctx context.Context, sub *sluice.Subscription) (Source, error)
	// Look calls lost for every range of events that left the log before they were handed out, as
	// far as that can be known. Then it stores which events wait now, for the next call. wanted
	// reports whether the subscription wants an event.
	Look(ctx context.Context, sub *sluice.Subscription, wanted func(*sluice.Event) bool, lost func(from, to uint64) error) error
}

// Replays stores the records of replays, and reads their lanes and attempts.
type Replays interface {
	// Replay returns a replay's stored state.
	Replay(ctx context.Context, rep sluice.Replay) (sluice.Replay, error)
	// Progress changes a stored replay. It calls change again after a conflicting write. A replay
	// that has ended keeps its state.
	Progress(ctx context.Context, rep sluice.Replay, change func(*sluice.Replay)) error
	// Recover is Log.Recover for the attempts of a replay.
	Recover(ctx context.Context, sub *sluice.Subscription, rep sluice.Replay) (map[uint64]model.Progress, error)
	// Parked is Lanes.Parked for lanes with another key prefix.
	Parked(ctx context.Context, sub *sluice.Subscription, lanesOf string) ([]model.ParkedEntry, error)
	// Forget deletes the records of the lanes with a key prefix.
	Forget(ctx context.Context, lanesOf string) error
}

// Letters reads and deletes dead letters.
type Letters interface {
	// DeadLetters returns up to limit of the subscription's dead letters with sequences in [from,
	// to], ascending.
	DeadLetters(ctx context.Context, sub *sluice.Subscription, from, to uint64, limit int) ([]model.BuriedLetter, error)
	// Unbury deletes the dead letter at a sequence. It is not an error if there is none.
	Unbury(ctx context.Context, letterSeq uint64) error
}

// Announcer publishes system events. Its methods must not block.
type Announcer interface {
	Held(sub *sluice.Subscription, d *sluice.DeadLetter) // the lane is stored as held; d is the letter that its head would become
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
	// Check returns code EventLoopDetected if an event must not be sent. Any other error means that
	// the answer is unknown. The engine asks only about events that name a cause.
	Check(ctx context.Context, ev *sluice.Event) error
}

// Catalogue checks events against the catalogue of their namespace.
type Catalogue interface {
	// Check returns an error if the catalogue does not permit an event.
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
	Pace     Pace // nil: no agreed or shared rates
	Registry Registry
	Arrivals Arrivals  // nil: each active subscription always has a runner
	Replays  Replays   // nil: there are none
	Letters  Letters   // with Replays
	Announce Announcer // nil: no announcements
	Causes   Causes    // nil: no loop check

	Catalogue Catalogue     // nil: every event may be sent
	Labels    filter.Labels // of event types; nil: there are none
	Filters   *filter.Pool  // evaluates expensive filters; nil: a pool without rates

	// Payer returns the principal that pays for a subscription's filter; "" is the operator. nil:
	// the operator pays for all.
	Payer func(sub *sluice.Subscription) string

	Lost func(namespace string) []sluice.Gap // returns the ranges of a log that are lost to damage; nil: there are none
}

// payer returns the payer of a subscription's filter.
func (p *Deps) payer(sub *sluice.Subscription) filter.Payer {
	payer := filter.Payer{Namespace: sub.Namespace}
	if p.Payer != nil {
		payer.Principal = p.Payer(sub)
	}
	return payer
}

// allowed returns an error if the catalogue does not permit an event.
func (p *Deps) allowed(ev *sluice.Event) error {
	if p.Catalogue == nil {
		return nil
	}
	return p.Catalogue.Check(ev)
}

// Pace limits attempts to the rate that an endpoint agreed to in its handshake, and to the rate
// that a subscription shares with others, across all runners.
type Pace interface {
	// Take counts a request to the subscription's endpoint and returns 0. Without room it counts
	// nothing, and returns how long to wait before asking again.
	Take(sub *sluice.Subscription, now time.Time) time.Duration
	// Return undoes Take for a request that was not sent.
	Return(sub *sluice.Subscription, now time.Time)
}

// Observer receives events for metrics. Its methods must not block.
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
	// Failing says that every attempt has failed since a time, and what percentage of the time
	// until the subscription is disabled has passed: 50, 70, 90 or 100, each at most once.
	Failing(sub *sluice.Subscription, percent int, since time.Time)
}
