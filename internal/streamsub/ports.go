package streamsub

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/sluice-io/sluice/internal/callbacktoken"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Records stores the subscriptions, by Key.String.
type Records interface {
	// Get returns a subscription and its revision. Code NotFound.
	Get(ctx context.Context, key string) (Subscription, uint64, error)
	// Put stores it and returns its revision. Code Conflict unless the stored revision is the given one; 0: there is none.
	Put(ctx context.Context, key string, s Subscription, revision uint64) (uint64, error)
	// Delete removes it. Code Conflict unless the stored revision is the given one.
	Delete(ctx context.Context, key string, revision uint64) error
	// Watch reports every subscription, its current state and its changes, until ctx is done. A nil
	// one is gone.
	Watch(ctx context.Context, change func(key string, s *Subscription, revision uint64)) error
}

// Logs knows the ends of paths.
type Logs interface {
	// FollowTails reports the end of every path of a namespace, in log order, and then changes;
	// without a path, the sequence up to which all is reported. Code NotFound.
	FollowTails(ctx context.Context, namespace string, tell func(path sluice.Path, seq uint64)) error
	// LastSeq returns the end of the log. Code NotFound.
	LastSeq(ctx context.Context, namespace string) (uint64, error)
}

// Streams reads and writes the streams.
type Streams interface {
	// Tail returns the end of a stream, and false if it does not exist.
	Tail(ctx context.Context, namespace string, path sluice.Path) (uint64, bool, error)
	// Visible returns the last message of a stream, not after upTo, that a caller may see; 0: none.
	Visible(ctx context.Context, who sluice.Caller, namespace string, path sluice.Path, upTo uint64) (uint64, error)
	// Append adds a JSON message to a stream in the name of by.
	Append(ctx context.Context, namespace string, path sluice.Path, message []byte, by sluice.Caller) error
}

// Poster makes outgoing requests.
type Poster interface {
	// Check returns an error if a URL may never be sent to.
	Check(ctx context.Context, url string) error
	// Handshake returns a webhook's agreement. Code Unprocessable if it does not agree;
	// QuotaExceeded if the caller asked for too many requests.
	Handshake(ctx context.Context, sub *sluice.Subscription) (*sluice.Agreement, error)
	// Post signs a body as of a time, sends it and returns the answer; an error if it cannot be signed.
	Post(ctx context.Context, url string, body []byte, at time.Time, timeout time.Duration) (Answer, error)
}

// Answer is the outcome of a request.
type Answer struct {
	OK    bool
	Body  []byte // if OK
	Error string // unless OK
}

// Gate decides about access.
type Gate interface {
	// Shows says whether a caller may know that a stream ends at a place.
	Shows(who sluice.Caller, namespace string, path sluice.Path, seq uint64) model.Decision
	// Writes says whether a caller may append to a stream.
	Writes(who sluice.Caller, namespace string, path sluice.Path) model.Decision
	// Holds says whether the owner of a subscription may still see anything of its request.
	Holds(wish *sluice.Subscription) model.Decision
}

// Accountant records that a subscription is about to be created or removed.
type Accountant interface {
	// Made and Removed return an error if the entry cannot be written; the change must not be made
	// then. Call failed if the change failed after all.
	Made(ctx context.Context, s *Subscription) (failed func(error), err error)
	Removed(ctx context.Context, s *Subscription, by sluice.Principal) (failed func(error), err error)
}

// Ownership decides which subscriptions this process serves, by the keys of their records. Its user
// calls Changed whenever the answer may have changed.
type Ownership interface {
	Owns(key string) bool
}

// Quota limits the subscriptions of a namespace, of a principal, and of those that send to one
// host.
type Quota interface {
	// Enter counts a subscription that is about to be stored, once. Code QuotaExceeded if there are
	// too many.
	Enter(ctx context.Context, sub *sluice.Subscription) error
	// Leave undoes Enter: the subscription was not stored.
	Leave(id string)
}

// Pace holds notices to the rate that a webhook agreed to.
type Pace interface {
	// Take counts a request to the subscription's webhook and returns 0, or returns how long to
	// wait.
	Take(sub *sluice.Subscription, now time.Time) time.Duration
}

// Deps are an engine's dependencies. Quota and Pace may be nil: there is no limit. The rest is
// required.
type Deps struct {
	Records Records
	Logs    Logs
	Streams Streams
	Post    Poster
	Gate    Gate
	Owns    Ownership
	Account Accountant
	Quota   Quota
	Pace    Pace
	Keys    callbacktoken.Keys      // for tokens
	Offset  func(seq uint64) string // formats a place in a stream
}

// Options are an engine's optional settings.
type Options struct {
	BaseURL string       // public URL of the namespaces' streams
	Log     *slog.Logger // default: slog.DiscardHandler

	MaxInFlight int              // concurrent requests; default: 1,024
	Now         func() time.Time // default: time.Now
	SweepEvery  time.Duration    // interval of access checks; default: 15 s
}

func (o Options) filled() Options {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	o.MaxInFlight = cmp.Or(o.MaxInFlight, 1024)
	o.SweepEvery = cmp.Or(o.SweepEvery, 15*time.Second)
	return o
}
