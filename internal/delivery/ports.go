package delivery

import (
	"context"
	"time"

	"github.com/sluice-io/sluice/internal/filter"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Source hands over the deliveries of one subscription in the order of the log. A source has no more deliveries unacknowledged than
// the subscription's window for each of its consumers.
type Source interface {
	Deliveries() <-chan *model.Delivery
	Ended() <-chan struct{}       // closed when it cannot go on and has to be opened again
	Exhausted() <-chan struct{}   // closed when everything was handed over; nil if there will always be more
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
	Recover(ctx context.Context, sub *sluice.Subscription) (map[uint64]model.Progress, error)
	// Bury stores a dead letter; a later one of the same delivery takes its place. Whoever tells of letters reads
	// what is stored (S2-05).
	Bury(ctx context.Context, d sluice.DeadLetter) error
}

// Lanes keeps the records of parked lanes. Conflict means that somebody else wrote the record.
type Lanes interface {
	Parked(ctx context.Context, sub *sluice.Subscription) ([]model.ParkedEntry, error)
	Park(ctx context.Context, sub *sluice.Subscription, p sluice.Parked, revision uint64) (uint64, error)
	Unpark(ctx context.Context, lane string, revision uint64) error
}

// Healths keeps what must not be forgotten of a subscription in trouble; the last write wins.
type Healths interface {
	// Health returns what was put last; zero if there is nothing.
	Health(ctx context.Context, sub *sluice.Subscription) (model.Health, error)
	// PutHealth stores it; a zero one removes what is stored.
	PutHealth(ctx context.Context, sub *sluice.Subscription, h model.Health) error
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

// Gate says whether an event may leave for a subscription now. It is asked at each attempt, right
// before the request is made, from many goroutines, and does not wait for anything.
type Gate interface {
	Decide(sub *sluice.Subscription, ev *sluice.Event, now time.Time) model.Decision
}

// Registry ends subscriptions whose endpoint is gone or has failed for too long, and those that lost their access.
type Registry interface {
	Cancel(ctx context.Context, id, reason string) error
	Disable(ctx context.Context, id, reason string) error
	// Suspend ends deliveries until somebody resumes the subscription, because of what it asks of the server.
	Suspend(ctx context.Context, id, reason string) error
}

// Sources opens a subscription's source. The durable consumer is made if it is missing.
type Sources interface {
	Open(ctx context.Context, sub *sluice.Subscription) (Source, error)
	// Look calls lost for every range of events that left the log and had not been handed
	// out, as far as that can be known, and then remembers what waits now.
	Look(ctx context.Context, sub *sluice.Subscription, wanted func(*sluice.Event) bool, lost func(from, to uint64) error) error
}

// Replays keeps the records of replays, and what belongs to them.
type Replays interface {
	// Replay returns a replay as it is stored now.
	Replay(ctx context.Context, rep sluice.Replay) (sluice.Replay, error)
	// Progress changes what is stored of a replay, anew if somebody else did meanwhile. One
	// that has ended keeps its state.
	Progress(ctx context.Context, rep sluice.Replay, change func(*sluice.Replay)) error
	// Recover is Log.Recover for the attempts of a replay.
	Recover(ctx context.Context, sub *sluice.Subscription, replay string) (map[uint64]model.Progress, error)
	// Parked is Lanes.Parked for lanes whose keys begin otherwise.
	Parked(ctx context.Context, sub *sluice.Subscription, lanesOf string) ([]model.ParkedEntry, error)
	// Forget deletes the records of such lanes.
	Forget(ctx context.Context, lanesOf string) error
}

// Letters keeps the dead letters.
type Letters interface {
	// DeadLetters returns up to limit of the subscription's dead letters whose place lies between two, inclusive, ascending.
	DeadLetters(ctx context.Context, sub *sluice.Subscription, from, to uint64, limit int) ([]model.BuriedLetter, error)
	// Unbury deletes the dead letter at a place; it is no error if there is none.
	Unbury(ctx context.Context, letterSeq uint64) error
}

// Announcer tells subscribers to system events what happens. Each call returns at once.
type Announcer interface {
	Held(sub *sluice.Subscription, d *sluice.DeadLetter) // there would be this letter; its lane waits instead, and that is stored
	Throttled(sub *sluice.Subscription, reason string)   // a limit held the subscription back
	// Failing is Observer.Failing.
	Failing(sub *sluice.Subscription, percent int, since time.Time)
	// StillHeld and StillFailing are called for what is found stored: who stored it may have died before it told of it.
	StillHeld(sub *sluice.Subscription, d *sluice.DeadLetter)
	StillFailing(sub *sluice.Subscription, percent int, since time.Time)
}

// Causes knows which events came of themselves.
type Causes interface {
	// Check returns code EventLoopDetected if an event must not be sent; any other error says that
	// it is not known. It is asked of events that name a cause.
	Check(ctx context.Context, ev *sluice.Event) error
}

// Catalogue knows what events may be like.
type Catalogue interface {
	// Check returns why an event may not be sent: it is not what its namespace allows.
	Check(ev *sluice.Event) error
}

// Ports is everything that a runner needs from outside.
type Ports struct {
	Sources  Sources
	Log      Log
	Lanes    Lanes
	Healths  Healths
	Events   Events
	Sender   Sender
	Gate     Gate // nil: everything may leave
	Pace     Pace // nil: at any rate
	Registry Registry
	Replays  Replays   // nil: there are none
	Letters  Letters   // with Replays
	Announce Announcer // nobody, if nil
	Causes   Causes    // nil: nobody looks

	Catalogue Catalogue     // nil: every event may be sent
	Labels    filter.Labels // of events' types; nil: there are none
	Filters   *filter.Pool  // evaluates what is dear; nil: one without bounds

	// Payer returns which principal pays for a subscription's filter; "" is the operator. nil: all are the operator's.
	Payer func(sub *sluice.Subscription) string
}

// payer returns what a subscription's filter is charged to.
func (p *Ports) payer(sub *sluice.Subscription) filter.Payer {
	payer := filter.Payer{Namespace: sub.Namespace}
	if p.Payer != nil {
		payer.Principal = p.Payer(sub)
	}
	return payer
}

// allowed returns why an event may not be sent, nil if it may.
func (p *Ports) allowed(ev *sluice.Event) error {
	if p.Catalogue == nil {
		return nil
	}
	return p.Catalogue.Check(ev)
}

// Pace holds attempts to the rate that an endpoint agreed to in its handshake, whatever runner makes them.
type Pace interface {
	// Take counts a request to the subscription's endpoint and returns 0, or returns how long none may be sent.
	Take(sub *sluice.Subscription, now time.Time) time.Duration
	// Return gives back what Take counted for a request that was not sent.
	Return(sub *sluice.Subscription, now time.Time)
}

// Observer is told of what happens, for metrics. Each call returns at once.
type Observer interface {
	Matched(sub *sluice.Subscription)
	Attempted(sub *sluice.Subscription, a *sluice.Attempt)
	Buried(sub *sluice.Subscription, reason sluice.Reason)
	// Withheld says that the gate kept an event from the subscription.
	Withheld(sub *sluice.Subscription)
	// Turned says that the subscription's breaker changed its state.
	Turned(sub *sluice.Subscription, to sluice.Breaker)
	// Throttled says that there is something to send, and that it waits for the rate or for a
	// Retry-After.
	Throttled(sub *sluice.Subscription)
	// Failing says that every attempt has failed since, which is so many per cent of the time
	// after which the subscription is disabled: 50, 70, 90, 100, each at most once.
	Failing(sub *sluice.Subscription, percent int, since time.Time)
}

// Gauges is a moment of one runner.
type Gauges struct {
	Namespace    string
	Subscription string
	InFlight     int
	Held         int
	Parked       int
	HeldLanes    int // of the parked
	Breaker      sluice.Breaker
	Unopened     bool          // its source could not be opened the last time: nothing is delivered
	Lag          time.Duration // age of the oldest event that is held or parked
}
