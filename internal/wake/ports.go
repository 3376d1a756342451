package wake

import (
	"context"
	"time"

	"github.com/sluice-io/sluice/internal/callbacktoken"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/supervise"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Watcher reports subscriptions. Watch calls change with the current state of each, then with each
// change, until ctx is done. A nil sub means that the subscription is gone; an empty id means that
// all stored ones have been reported.
type Watcher interface {
	Watch(ctx context.Context, change func(id string, sub *sluice.Subscription)) error
}

// Ownership reports which subscriptions this process serves.
type Ownership interface {
	supervise.Ownership
	Owns(subscription string) bool
}

// Entry is a consumer's record with its revision.
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
	// Floor returns an epoch that is at least that of every deleted consumer of a subscription of
	// this id. New consumers begin above it.
	Floor(ctx context.Context, subscription string) (uint64, error)
	// Forget raises the floor of a subscription, and then removes its records up to a revision.
	Forget(ctx context.Context, subscription string, floor, upTo uint64) error
}

// Streams looks up the streams of a namespace.
type Streams interface {
	// Tail returns a stream's present tail, read from the leader of its log.
	Tail(ctx context.Context, namespace string, path sluice.Path) (Tail, error)
	// Visible returns the sequence of the last message of a stream, not after upTo, that a
	// subscription's owner may see; 0: none.
	Visible(ctx context.Context, sub *sluice.Subscription, path sluice.Path, upTo uint64) (uint64, error)
	// Last returns the sequence of the last message on a path, even of a deleted stream, read from
	// the leader of the log; 0: there is none.
	Last(ctx context.Context, namespace string, path sluice.Path) (uint64, error)
	// Before returns the sequence of the last message of a stream up to a sequence; 0: there is none.
	Before(ctx context.Context, namespace string, path sluice.Path, upTo uint64) (uint64, error)
	// End returns the last sequence of the log.
	End(ctx context.Context, namespace string) (uint64, error)
	// Ends calls each for every stream that the pattern matches, with the sequence of its last message.
	Ends(ctx context.Context, namespace string, pattern sluice.Pattern, each func(path sluice.Path, last uint64)) error
	// Follow calls each for every message that is stored on any path from now on, until ctx is
	// done. It calls each with an empty path at its start, and whenever it may have missed
	// messages.
	Follow(ctx context.Context, namespace string, each func(path sluice.Path, seq uint64)) error
	// FormatOffset and ParseOffset convert sequences to and from offsets of the Durable Streams
	// protocol.
	FormatOffset(seq uint64) string
	ParseOffset(text string) (uint64, error)
}

// Source delivers messages on the paths of a subscription, in log order.
type Source interface {
	Deliveries() <-chan *model.Delivery
	Ended() <-chan struct{} // closed when a new source has to be opened
	Close()
}

// Sources opens a subscription's source. Open creates the durable consumer if it is missing.
type Sources interface {
	Open(ctx context.Context, sub *sluice.Subscription) (Source, error)
}

// Letter is one attempt to notify.
type Letter struct {
	WakeID string
	Path   sluice.Path
	Seq    uint64 // of the last visible message of the primary stream
	Number int    // of the attempt, from 1
	Body   []byte
}

// Poster makes an attempt: it signs the body and sends it. It returns the body of the response if
// that was a 2xx.
type Poster interface {
	Post(ctx context.Context, sub *sluice.Subscription, l Letter) (a sluice.Attempt, body []byte)
}

// Pace limits notices to the rate that an endpoint agreed to in its handshake.
type Pace interface {
	// Take counts a request to the subscription's endpoint and returns 0. Without room it counts
	// nothing, and returns how long to wait before asking again.
	Take(sub *sluice.Subscription, now time.Time) time.Duration
	// Return undoes Take for a request that was not sent.
	Return(sub *sluice.Subscription, now time.Time)
}

// Gate decides whether a message on a path may leave for a subscription now.
type Gate interface {
	Decide(sub *sluice.Subscription, ev *sluice.Event, now time.Time) model.Decision
}

// Log stores attempts.
type Log interface {
	// Record stores an attempt, and calls done with the result. It does not wait for that.
	Record(a *sluice.Attempt, namespace string, done func(error))
	// Notices returns the last attempts of a wake that began at a time, the newest last.
	Notices(ctx context.Context, sub *sluice.Subscription, wakeID string, since time.Time) ([]sluice.Attempt, error)
}

// Registry looks up subscriptions that Watcher has not reported yet, and ends those that lost their
// access.
type Registry interface {
	Get(ctx context.Context, id string) (*sluice.Subscription, error)
	// Revoke ends a subscription. If the subscription has another owner by now, it does nothing and
	// returns false.
	Revoke(ctx context.Context, of *sluice.Subscription) (revoked bool, err error)
}

// Observer receives events for metrics. Its methods must not block.
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
