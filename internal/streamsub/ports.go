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

// Records stores the subscriptions, by the key Key.String.
type Records interface {
	// Get returns a subscription and its revision. Code NotFound.
	Get(ctx context.Context, key string) (Subscription, uint64, error)
	// Put stores a subscription and returns its new revision. Code Conflict unless the stored
	// revision is the given one; 0: it must not exist.
	Put(ctx context.Context, key string, s Subscription, revision uint64) (uint64, error)
	// Delete removes a subscription. Code Conflict unless the stored revision is the given one.
	Delete(ctx context.Context, key string, revision uint64) error
	// Watch calls change with the current state of every subscription, then with each change, until
	// ctx is done. A nil subscription was deleted.
	Watch(ctx context.Context, change func(key string, s *Subscription, revision uint64)) error
}

// Logs reads the ends of paths and logs.
type Logs interface {
	// FollowTails calls tell with the end of every path of a namespace, in log order, and then with
	// each change. A call with an empty path says up to which sequence everything was reported.
	// Code NotFound if there is no such namespace; Unavailable if only its log is missing.
	FollowTails(ctx context.Context, namespace string, tell func(path sluice.Path, seq uint64)) error
	// LastSeq returns the end of the log. Codes as of FollowTails.
	LastSeq(ctx context.Context, namespace string) (uint64, error)
	// NextSeq returns the sequence of the first message that the log has from a sequence on, on a
	// NATS subject, which may have wildcards; 0 if there is none.
	NextSeq(ctx context.Context, namespace, subject string, from uint64) (uint64, error)
}

// Streams reads and writes the streams.
type Streams interface {
	// Tail returns the end of a stream, and false if it does not exist.
	Tail(ctx context.Context, namespace string, path sluice.Path) (uint64, bool, error)
	// Visible returns the sequence of the last message of a stream, not after upTo, that a caller
	// may see; 0: none.
	Visible(ctx context.Context, who sluice.Caller, namespace string, path sluice.Path, upTo uint64) (uint64, error)
	// Append adds a JSON message to a stream with the rights of by.
	Append(ctx context.Context, namespace string, path sluice.Path, message []byte, by sluice.Caller) error
}

// Poster makes outgoing requests.
type Poster interface {
	// Check returns an error if requests to a URL are never allowed.
	Check(ctx context.Context, url string) error
	// Handshake asks a webhook for its agreement. Code Unprocessable if it does not agree;
	// QuotaExceeded if the caller has triggered too many requests.
	Handshake(ctx context.Context, sub *sluice.Subscription) (*sluice.Agreement, error)
	// Post signs a body as of a time and sends it. It returns an error only if the body cannot be
	// signed; other failures are in the answer.
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
	// Shows decides whether a caller may know that a stream ends at a sequence.
	Shows(who sluice.Caller, namespace string, path sluice.Path, seq uint64) model.Decision
	// Writes decides whether a caller may append to a stream.
	Writes(who sluice.Caller, namespace string, path sluice.Path) model.Decision
	// Holds decides whether the owner of a subscription may still see anything of its pattern.
	Holds(wish *sluice.Subscription) model.Decision
}

// Accountant records that a subscription is about to be created or removed.
type Accountant interface {
	// Made and Removed return an error if the entry cannot be written; then the caller must not
	// make the change. The caller calls failed if the change itself fails.
	Made(ctx context.Context, s *Subscription) (failed func(error), err error)
	Removed(ctx context.Context, s *Subscription, by sluice.Principal) (failed func(error), err error)
}

// Ownership reports which subscriptions this process serves, by the keys of their records. Whenever
// that may have changed, Engine.Changed has to be called.
type Ownership interface {
	Owns(key string) bool
}

// Quota limits the subscriptions of a namespace, those of a principal, and those of a principal
// that send to one host.
type Quota interface {
	// Enter counts a subscription that is about to be stored; a second call for it changes nothing.
	// Code QuotaExceeded if there are too many.
	Enter(ctx context.Context, sub *sluice.Subscription) error
	// Leave undoes Enter: the subscription was not stored.
	Leave(id string)
}

// Pace limits notices to the rate that a webhook agreed to.
type Pace interface {
	// Take counts a request to the subscription's webhook and returns 0. Without room it counts
	// nothing, and returns how long to wait before asking again.
	Take(sub *sluice.Subscription, now time.Time) time.Duration
}

// Deps are an engine's dependencies. Quota and Pace may be nil, for no limit. The others are
// required. All are called from several goroutines at once.
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
	Offset  func(seq uint64) string // formats a sequence as an offset of a stream
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
