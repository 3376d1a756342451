package wake

import (
	"context"
	"time"

	"github.com/sluice-io/sluice/internal/callbacktoken"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/supervise"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Watcher reports every subscription, first its current state, then its changes, until ctx is done.
// A nil sub means that the subscription of that id is gone; without an id, that all have been
// reported.
type Watcher interface {
	Watch(ctx context.Context, change func(id string, sub *sluice.Subscription)) error
}

// Ownership decides which subscriptions this process serves.
type Ownership interface {
	supervise.Ownership
	Owns(subscription string) bool
}

// Entry is a record with its revision.
type Entry struct {
	Consumer Consumer
	Revision uint64 // 0: there is none
}

// Records stores wake consumers, by subscription and path.
type Records interface {
	// Get returns the stored record; revision 0: there is none.
	Get(ctx context.Context, subscription string, path sluice.Path) (Entry, error)
	// Put stores a record. Code Conflict unless the stored revision is the given one.
	Put(ctx context.Context, subscription string, c Consumer, revision uint64) (uint64, error)
	// List returns a subscription's records.
	List(ctx context.Context, subscription string) ([]Entry, error)
	// Watch reports a subscription's records, then calls caughtUp once, then reports changes, until
	// ctx is done.
	Watch(ctx context.Context, subscription string, each func(Entry), caughtUp func()) error
	// Floor returns an epoch not below that of any deleted consumer of a subscription of this id:
	// new ones begin behind it.
	Floor(ctx context.Context, subscription string) (uint64, error)
	// Forget raises the floor of a subscription, and then removes its records up to a revision.
	Forget(ctx context.Context, subscription string, floor, upTo uint64) error
}

// Streams looks up the streams of a namespace.
type Streams interface {
	// Tail returns a stream's present tail from the leader of its log.
	Tail(ctx context.Context, namespace string, path sluice.Path) (Tail, error)
	// Visible returns the sequence of the last message of a stream, not after upTo, that a
	// subscription's owner may see; 0: none.
	Visible(ctx context.Context, sub *sluice.Subscription, path sluice.Path, upTo uint64) (uint64, error)
	// Last returns the sequence of the last message on a path, of any stream, from the leader of
	// the log; 0: there is none.
	Last(ctx context.Context, namespace string, path sluice.Path) (uint64, error)
	// Before returns the sequence of the last message of a stream up to a sequence; 0: there is none.
	Before(ctx context.Context, namespace string, path sluice.Path, upTo uint64) (uint64, error)
	// Ends calls each for every stream that the pattern matches, with the sequence of its last message.
	Ends(ctx context.Context, namespace string, pattern sluice.Pattern, each func(path sluice.Path, last uint64)) error
	// Follow calls each for every message that is stored on any path from now on, until ctx is
	// done, and without a path at its start and whenever messages may have been missed.
	Follow(ctx context.Context, namespace string, each func(path sluice.Path, seq uint64)) error
	// FormatOffset and ParseOffset are the protocol's.
	FormatOffset(seq uint64) string
	ParseOffset(text string) (uint64, error)
}

// Source hands over messages on the paths of a subscription, in log order.
type Source interface {
	Deliveries() <-chan *model.Delivery
	Ended() <-chan struct{} // closed when the source has to be opened again
	Close()
}

// Sources opens a subscription's source. A missing durable consumer is created.
type Sources interface {
	Open(ctx context.Context, sub *sluice.Subscription) (Source, error)
}

// Letter is one attempt to notify.
type Letter struct {
	WakeID string
	Path   sluice.Path
	Seq    uint64 // of the last message of the primary stream
	Number int    // of the attempt, from 1
	Body   []byte
}

// Poster makes an attempt: it signs the body and sends it. The returned body is that of a 2xx.
type Poster interface {
	Post(ctx context.Context, sub *sluice.Subscription, l Letter) (a sluice.Attempt, body []byte)
}

// Pace holds notices to the rate that an endpoint agreed to in its handshake.
type Pace interface {
	// Take counts a request to the subscription's endpoint and returns 0, or returns how long to
	// wait.
	Take(sub *sluice.Subscription, now time.Time) time.Duration
	// Return undoes Take for a request that was not sent.
	Return(sub *sluice.Subscription, now time.Time)
}

// Gate decides whether a message on a path may leave for a subscription now.
type Gate interface {
	Decide(sub *sluice.Subscription, ev *sluice.Event, now time.Time) model.Decision
}

// Log stores the attempts.
type Log interface {
	// Record stores an attempt and then calls done.
	Record(a *sluice.Attempt, namespace string, done func(error))
	// Notices returns the last attempts of a wake that began at a time, the newest last.
	Notices(ctx context.Context, sub *sluice.Subscription, wakeID string, since time.Time) ([]sluice.Attempt, error)
}

// Registry looks up subscriptions that have not been reported yet, and ends those that lost their
// access.
type Registry interface {
	Get(ctx context.Context, id string) (*sluice.Subscription, error)
	// Revoke does nothing, and reports that, if the subscription has another owner by now.
	Revoke(ctx context.Context, of *sluice.Subscription) (revoked bool, err error)
}

// Observer receives events for metrics. Each call returns at once.
type Observer interface {
	Woken(sub *sluice.Subscription)
	Notified(sub *sluice.Subscription, a *sluice.Attempt)
	CalledBack(sub *sluice.Subscription, code sluice.Code) // "": accepted
}

// Deps are an engine's dependencies.
type Deps struct {
	Watch    Watcher
	Owns     Ownership
	Records  Records
	Streams  Streams
	Sources  Sources
	Poster   Poster
	Gate     Gate // nil: everything may leave
	Pace     Pace // nil: at any rate
	Log      Log
	Registry Registry
	Keys     callbacktoken.Keys
	Observe  Observer // nil: none
}
