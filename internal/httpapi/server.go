package httpapi

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/internal/access"
	"github.com/sluice-io/sluice/internal/authority"
	"github.com/sluice-io/sluice/internal/explain"
	"github.com/sluice-io/sluice/internal/feed"
	"github.com/sluice-io/sluice/internal/registry"
	"github.com/sluice-io/sluice/internal/turns"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Namespaces keeps the namespaces and their logs.
type Namespaces interface {
	// PutNamespace makes or changes a namespace and returns it, and whether it is new. With a
	// revision it is changed only if that is the stored one: code RevisionMismatch. Without a
	// label, that stays as it is. By is who wants it.
	PutNamespace(ctx context.Context, ns sluice.Namespace, by string) (sluice.Namespace, bool, error)
	// Namespace returns a namespace with its usage. Code NotFound if there is none.
	Namespace(ctx context.Context, name string) (sluice.Namespace, error)
	// Namespaces returns all namespaces, in no order.
	Namespaces(ctx context.Context) ([]sluice.Namespace, error)
	// DeleteNamespace removes a namespace with its subscriptions and its log. Codes NotFound; Conflict for the default one.
	DeleteNamespace(ctx context.Context, name, by string) error
}

// Publisher stores events.
type Publisher interface {
	// Publish stores events of one namespace in their order, all or none.
	Publish(ctx context.Context, namespace string, events []sluice.Event) ([]sluice.Stored, error)
}

// Quota bounds what namespaces take.
type Quota interface {
	// Take pays for a request of so many events and bytes, all or nothing. Codes QuotaExceeded,
	// with retry_after in whole seconds; TooLarge for what can never pass.
	Take(namespace string, events, bytes int, now time.Time) error
}

// Log reads a namespace's events.
type Log interface {
	// Read returns events in the order of the log. Codes NotFound; InvalidRequest;
	// WindowExceeded, with oldest_available_seq and current_seq.
	Read(ctx context.Context, namespace string, q EventQuery) (EventPage, error)
	// EventAt returns the event with the sequence. Codes NotFound; WindowExceeded.
	EventAt(ctx context.Context, namespace string, seq uint64) (sluice.Event, error)
	// EventByID returns the event with the id. Code NotFound.
	EventByID(ctx context.Context, namespace, id string) (sluice.Event, error)
	// State returns the last event of every path as of one sequence. Codes NotFound; InvalidRequest;
	// WindowExceeded, with oldest_available_seq and current_seq.
	State(ctx context.Context, namespace string, q StateQuery) (StatePage, error)
}

// StateQuery picks paths of a log. Zero values pick all that have events, as of now.
type StateQuery struct {
	Pattern sluice.Pattern
	Path    sluice.Path // only this one; goes before Pattern
	At      uint64      // as of this sequence
	After   uint64      // Next of the page before, whose Seq is At
	Limit   int
	Visible func(*sluice.Event) bool // paths whose last event is another are left out
}

// StatePage is part of a state.
type StatePage struct {
	Seq    uint64 // what it is the state as of
	Events []sluice.Event
	Next   uint64 // for After; 0: there are no more
}

// EventQuery picks events of a log. Zero values pick all that are kept.
type EventQuery struct {
	Pattern sluice.Pattern
	Types   []string // exact, or a prefix that ends in ".*"; any of them
	Since   string   // a cursor: what comes after it; with a time, what was stored then or later
	Until   string   // a cursor: up to it, inclusive
	After   uint64   // Next of the page before; goes before Since
	Limit   int
	Visible func(*sluice.Event) bool // others are left out as if they were not there
}

// EventPage is part of a log.
type EventPage struct {
	Events []sluice.Event
	Next   uint64 // for After; 0: there are no more
}

// Deliveries knows how a subscription is doing.
type Deliveries interface {
	// Status returns how a subscription is doing.
	Status(ctx context.Context, sub *sluice.Subscription) (sluice.Status, error)
	// LastAttemptAt returns when the subscription's last attempt was recorded; zero: there is none.
	LastAttemptAt(ctx context.Context, sub *sluice.Subscription) (time.Time, error)
	// Test sends a signed sample event to the subscription's endpoint, whatever its state.
	Test(ctx context.Context, sub *sluice.Subscription) (sluice.Attempt, error)
}

// Retrier repeats deliveries, and gives up those that hold their lanes.
type Retrier interface {
	// Retry has an event sent again, named by its id or its sequence: the head of a parked lane
	// is due at once, any other event is a replay of its own. Codes NotFound; Conflict where
	// nothing can be sent.
	Retry(ctx context.Context, sub *sluice.Subscription, event, by string) (sluice.Replay, error)
	// Discard has the head of a held lane become a dead letter, named by its id or its sequence.
	// Codes NotFound; Conflict if it holds no lane.
	Discard(ctx context.Context, sub *sluice.Subscription, event, by string) (sluice.Replay, error)
}

// Options is what a server works with. What has no default is required.
type Options struct {
	Token      string // the root token; without one root does not get in
	Authority  *authority.Authority
	Access     *access.Index // nil, with Authority: there is only root
	Tombstones Tombstones
	Registry   *registry.Registry
	Namespaces Namespaces
	Publisher  Publisher
	Quota      Quota  // nil: no bound
	Causes     Causes // nil: nobody looks
	Producers  Producers
	Log        Log
	Deliveries Deliveries
	Storage    func(context.Context) (sluice.Storage, error)
	Explain    *explain.Explainer
	Fact       func(*sluice.Subscription, *sluice.Event) []byte // the envelope fact of an event (S0-29)
	Retrier    Retrier                                          // nil: 503
	Stopping   context.Context                                  //nolint:containedctx // it ends with the server: who waits is answered; nil: never
	Audit      Audit
	Ready      func(context.Context) error           // nil if requests can be served; else code Unavailable
	Room       Room                                  // nil: there is always room
	JWKS       func(context.Context) ([]byte, error) // the public keys as a JWK set
	Metrics    http.Handler                          // for /metrics
	Version    string                                // of the program; "dev"

	Verify       func(context.Context) (sluice.Verification, error) // begins to read everything that is stored
	ForgetDamage func(context.Context) error
	Problem      func() string // what is wrong with what is stored though requests can be served, and what to do; nil: it is not known

	Keys       Keys
	EventTypes EventTypes
	Catalogue  Catalogue // nil: every event may be published

	Watches      Watches      // nil: 503
	Scheduled    Scheduled    // nil: events are stored at once only
	Appointments Appointments // nil: 503

	Feeds   *feed.Engine // nil: 503
	Streams Streams
	Wakes   Wakes // nil: 503
	Dsubs   Dsubs

	Answers     Answers // nil: 503 for requests with an Idempotency-Key
	DeadLetters DeadLetters
	Replays     Replays // nil: starting one is Unavailable

	MaxBody int64 // bytes of a request's body; 8 MiB

	// Tests, retries, redrives and replays that may be asked for in a minute; 0: any number. The operator may any number.
	SendsPerSubscription, SendsPerPrincipal int

	FailureBurst   int            // requests without a valid token that one address may make at once, before 429; 0: any number
	FailureEvery   time.Duration  // after which it may make one more; 6 s
	TrustedProxies []netip.Prefix // whose X-Forwarded-For is believed
	MetricsFor     string         // who may read the metrics without a token; MetricsLoopback
	TLS            bool           // callers come over TLS, and are to keep to it

	Logger *slog.Logger // one line a request; slog.DiscardHandler
}

// Server answers HTTP requests.
type Server struct {
	opts     Options
	echo     *echo.Echo
	failures *failures
	pieces   pieces
	trials   trials

	expressions turns.Turns[sluice.Principal] // that requests for state evaluate
	sends       sends
}

const (
	defaultMaxBody      = 8 << 20
	defaultMaxAppend    = 10 << 20
	defaultLongPoll     = 30 * time.Second
	defaultFailureEvery = 6 * time.Second
)

// New returns a server, which does nothing by itself: its handler is to be served.
func New(opts Options) *Server {
	opts.Version = cmp.Or(opts.Version, "dev")
	opts.MaxBody = cmp.Or(opts.MaxBody, defaultMaxBody)
	opts.Streams.MaxBody = cmp.Or(opts.Streams.MaxBody, defaultMaxAppend)
	opts.Streams.LongPoll = cmp.Or(opts.Streams.LongPoll, defaultLongPoll)
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	opts.MetricsFor = cmp.Or(opts.MetricsFor, MetricsLoopback)
	s := &Server{opts: opts, echo: echo.New(), failures: newFailures(opts.FailureBurst, cmp.Or(opts.FailureEvery, defaultFailureEvery))}
	s.sends.perSubscription, s.sends.perPrincipal = opts.SendsPerSubscription, opts.SendsPerPrincipal
	s.echo.IPExtractor = addressOf(opts.TrustedProxies)
	s.echo.Pre(before(s.atRoot, rooted))
	s.echo.Use(before(s.secured()), s.observe, before(s.authenticate, s.fits))
	for _, r := range s.routes() {
		s.echo.Add(r.method, r.path, s.guard(r))
	}
	return s
}

// Handler returns the handler of all requests.
func (s *Server) Handler() http.Handler { return s.echo }

// untilStop returns a context that ends with ctx or with the server.
func (s *Server) untilStop(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	if s.opts.Stopping == nil {
		return ctx, cancel
	}
	detach := context.AfterFunc(s.opts.Stopping, cancel) // no goroutine of its own: there may be thousands
	return ctx, func() {
		detach()
		cancel()
	}
}
