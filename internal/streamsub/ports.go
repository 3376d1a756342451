package streamsub

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/sluice-io/sluice/internal/callbacktoken"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Records keeps the subscriptions, by Key.String.
type Records interface {
	// Get returns a subscription and its revision. Code NotFound.
	Get(ctx context.Context, key string) (Subscription, uint64, error)
	// Put stores it and returns its revision. Code Conflict unless the stored revision is the given one; 0: there is none.
	Put(ctx context.Context, key string, s Subscription, revision uint64) (uint64, error)
	// Delete removes it. Code Conflict unless the stored revision is the given one.
	Delete(ctx context.Context, key string, revision uint64) error
	// Watch tells of every subscription, as it is and as it changes, until ctx is done. A nil one is gone.
	Watch(ctx context.Context, change func(key string, s *Subscription, revision uint64)) error
}

// Logs says where paths end.
type Logs interface {
	// FollowTails tells where every path of a namespace ends, in the order of the log, and then of what comes;
	// without a path, up to where all has been told. Code NotFound.
	FollowTails(ctx context.Context, namespace string, tell func(path sluice.Path, seq uint64)) error
	// LastSeq returns where the log ends. Code NotFound.
	LastSeq(ctx context.Context, namespace string) (uint64, error)
}

// Streams is the streams themselves.
type Streams interface {
	// Tail returns where a stream ends, and false if it is not there.
	Tail(ctx context.Context, namespace string, path sluice.Path) (uint64, bool, error)
	// Visible returns the last message of a stream, up to a place, that a caller may see; 0: they may see none.
	Visible(ctx context.Context, who sluice.Caller, namespace string, path sluice.Path, upTo uint64) (uint64, error)
	// Append adds a message of JSON to a stream. By is whose word it is.
	Append(ctx context.Context, namespace string, path sluice.Path, message []byte, by sluice.Caller) error
}

// Poster makes requests to others.
type Poster interface {
	// Check returns an error if a URL may never be sent to.
	Check(ctx context.Context, url string) error
	// Handshake returns what a webhook agrees to. Code Unprocessable if it does not agree; QuotaExceeded if the caller asked
	// for too many requests.
	Handshake(ctx context.Context, sub *sluice.Subscription) (*sluice.Agreement, error)
	// Post sends a body and returns what came of it.
	Post(ctx context.Context, url string, header http.Header, body []byte, timeout time.Duration) Answer
}

// Answer is what came of a request.
type Answer struct {
	OK    bool
	Body  []byte // of an answer that is OK
	Error string // of one that is not
}

// Gate says who may have what.
type Gate interface {
	// Shows says whether somebody may be told that a stream ends at a place.
	Shows(who sluice.Caller, namespace string, path sluice.Path, seq uint64) model.Decision
	// Writes says whether somebody may append to a stream.
	Writes(who sluice.Caller, namespace string, path sluice.Path) model.Decision
	// Holds says whether somebody may still have anything of what a subscription asks for.
	Holds(wish *sluice.Subscription) model.Decision
}

// Accountant writes down that a subscription is about to be made, or removed.
type Accountant interface {
	// Made and Removed return an error if that cannot be written: it must not be done then. failed is to be told if it was not
	// done after all.
	Made(ctx context.Context, s *Subscription) (failed func(error), err error)
	Removed(ctx context.Context, s *Subscription, by sluice.Principal) (failed func(error), err error)
}

// Ownership says which subscriptions this process serves, by the keys of their records. Changed is to be called
// whenever the answer may have changed.
type Ownership interface {
	Owns(key string) bool
}

// Quota bounds how many subscriptions there are: of a namespace, of a principal, and of those that send to one host.
type Quota interface {
	// Enter counts a subscription that is about to be stored, once. Code QuotaExceeded if there are too many.
	Enter(ctx context.Context, sub *sluice.Subscription) error
	// Leave takes Enter back: the subscription was not stored.
	Leave(id string)
}

// Pace holds notices to the rate that a webhook agreed to.
type Pace interface {
	// Take counts a request to the subscription's webhook and returns 0, or returns how long none may be sent.
	Take(sub *sluice.Subscription, now time.Time) time.Duration
}

// Ports is what an engine works with. Quota and Pace may be nil: there is no bound. The rest is required.
type Ports struct {
	Records Records
	Logs    Logs
	Streams Streams
	Post    Poster
	Gate    Gate
	Owns    Ownership
	Account Accountant
	Quota   Quota
	Pace    Pace
	Keys    callbacktoken.Keys                              // for tokens
	Sign    func(body []byte, at time.Time) (string, error) // Webhook-Signature
	Offset  func(seq uint64) string                         // how a place in a stream is written
}

// Options is what an engine can do without.
type Options struct {
	BaseURL string       // of the namespaces' streams, as others reach them
	Log     *slog.Logger // slog.DiscardHandler

	MaxInFlight int              // requests at once; 1,024
	Now         func() time.Time // time.Now
	SweepEvery  time.Duration    // how often access is looked at though nothing happens; 15 s
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
