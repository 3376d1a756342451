package httpapi

import (
	"cmp"
	"context"
	"crypto/sha256"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/internal/authz"
	"github.com/sluice-io/sluice/internal/explain"
	"github.com/sluice-io/sluice/internal/feed"
	"github.com/sluice-io/sluice/internal/grants"
	"github.com/sluice-io/sluice/internal/health"
	"github.com/sluice-io/sluice/internal/httpapi/access"
	"github.com/sluice-io/sluice/internal/httpapi/admin"
	"github.com/sluice-io/sluice/internal/httpapi/dstreams"
	"github.com/sluice-io/sluice/internal/httpapi/enrichment"
	"github.com/sluice-io/sluice/internal/httpapi/httpkit"
	"github.com/sluice-io/sluice/internal/httpapi/live"
	"github.com/sluice-io/sluice/internal/httpapi/mirrors"
	"github.com/sluice-io/sluice/internal/httpapi/modules"
	"github.com/sluice-io/sluice/internal/httpapi/schedules"
	"github.com/sluice-io/sluice/internal/httpapi/watches"
	"github.com/sluice-io/sluice/internal/ingest"
	"github.com/sluice-io/sluice/internal/keylock"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/subscription"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Namespaces manages namespaces and their logs.
type Namespaces interface {
	// PutNamespace creates or updates a namespace and returns it, and whether it is new. A revision
	// must be the current one: code RevisionMismatch. Without a label, the label is unchanged. By
	// is the principal of the change.
	PutNamespace(ctx context.Context, ns sluice.Namespace, by string) (sluice.Namespace, bool, error)
	// Namespace returns a namespace with its usage. Code NotFound if it does not exist.
	Namespace(ctx context.Context, name string) (sluice.Namespace, error)
	// Namespaces returns all namespaces, in no order.
	Namespaces(ctx context.Context) ([]sluice.Namespace, error)
	// DeleteNamespace removes a namespace with its subscriptions and its log. Codes NotFound; Conflict for the default one.
	DeleteNamespace(ctx context.Context, name, by string) error
}

// Log reads a namespace's events.
type Log interface {
	// Read returns events in log order. Codes NotFound; InvalidRequest; WindowExceeded, with
	// oldest_available_seq and current_seq.
	Read(ctx context.Context, namespace string, q model.EventQuery) (model.EventPage, error)
	// EventAt returns the event with the sequence. Codes NotFound; WindowExceeded.
	EventAt(ctx context.Context, namespace string, seq uint64) (sluice.Event, error)
	// EventByID returns the event with the id. Code NotFound.
	EventByID(ctx context.Context, namespace, id string) (sluice.Event, error)
	// State returns the latest event on each path at one sequence. Codes NotFound; InvalidRequest;
	// WindowExceeded, with oldest_available_seq and current_seq.
	State(ctx context.Context, namespace string, q model.StateQuery) (model.StatePage, error)
}

// Deliveries reports the state of a subscription's deliveries.
type Deliveries interface {
	// Status returns the status of a subscription.
	Status(ctx context.Context, sub *sluice.Subscription) (sluice.Status, error)
	// LastAttemptAt returns when the subscription's last attempt was recorded; zero: never.
	LastAttemptAt(ctx context.Context, sub *sluice.Subscription) (time.Time, error)
	// Test sends a signed test event to the subscription's endpoint, in any state.
	Test(ctx context.Context, sub *sluice.Subscription, eventType string, data []byte) (sluice.Attempt, error)
}

// Retrier retries deliveries, and discards the heads of held lanes.
type Retrier interface {
	// Retry retries the delivery of an event, given by its ID or sequence: the head of a parked
	// lane immediately, any other event as a replay of its own. Codes NotFound; Conflict if the
	// event cannot be sent.
	Retry(ctx context.Context, sub *sluice.Subscription, event, by string) (sluice.Replay, error)
	// Discard turns the head of a held lane into a dead letter, given by its ID or sequence. Codes
	// NotFound; Conflict if it holds no lane.
	Discard(ctx context.Context, sub *sluice.Subscription, event, by string) (sluice.Replay, error)
	// Probe makes the next probe of an open breaker due at once. Code Conflict.
	Probe(ctx context.Context, sub *sluice.Subscription, by string) (sluice.Replay, error)
	// RetryLanes makes all parked lanes due at once. Code Conflict.
	RetryLanes(ctx context.Context, sub *sluice.Subscription, by string) (sluice.Replay, error)
	// Proved reports a successful test, which counts as a probe for a subscription in trouble.
	Proved(ctx context.Context, sub *sluice.Subscription, by string) error
}

// Room reports the capacity of the store.
type Room interface {
	Level() sluice.StorageLevel
	Grow() error // nil if the store has room for data other than events; otherwise code Unavailable
}

// Authentication identifies callers and holds their rights.
type Authentication struct {
	Token     string // the root token; without one, root cannot log in
	Authority *grants.Authority
	Access    *authz.Index // nil, together with Authority: only root
	Programs  Programs     // nil: programs of modules have no tokens

	// FailureBurst is how many requests without a valid token one address may make at once; further
	// ones get 429. 0: unlimited.
	FailureBurst int
	FailureEvery time.Duration // interval after which one more is allowed; default 6 s
}

// Publishing holds the dependencies of publishing.
type Publishing struct {
	Ingest     *ingest.Ingest
	Catalogue  Catalogue // nil: no event types
	EventTypes EventTypes
	NATS       NATS
}

// Delivering holds the dependencies of requests about deliveries.
type Delivering struct {
	Deliveries  Deliveries
	DeadLetters DeadLetters
	Replays     Replays // nil: starting a replay is Unavailable
	Retrier     Retrier // nil: 503
	Explain     *explain.Explainer
	Attempts    AttemptLog
	Fact        func(*sluice.Subscription, *sluice.Event) []byte // the envelope fact of an event (S0-29)
	Health      *health.Overview                                 // nil: 503
	Problems    Problems                                         // nil: 503
	Sends       Sends                                            // for tests, retries, redrives, replays; nil: unlimited
}

// Store reports the state of the store.
type Store struct {
	Ready   func(context.Context) error // nil if requests can be served; else code Unavailable
	Problem func() string               // problem of the store while requests can be served, and its remedy; nil: unknown
	Room    Room                        // nil: unlimited capacity
	Storage func(context.Context) (sluice.Storage, error)
	Verify  func(context.Context) (sluice.Verification, error) // starts a verification

	ForgetDamage func(context.Context) error
}

// Network holds the settings of connections.
type Network struct {
	MaxBody        int64          // maximum size of a request's body; default 8 MiB
	TrustedProxies []netip.Prefix // proxies with a trusted X-Forwarded-For
	MetricsFor     string         // access to the metrics without a token; default MetricsLoopback
	Pprof          bool           // profiles of the process are served to its admins
	TLS            bool           // callers connect with TLS, which HSTS then requires of browsers
	PublicURL      string         // of the server, if the operator has set it; for links
	PortalTitle    string         // name of the portal; default "Webhooks"
	FrameAncestors []string       // origins whose pages may show the portal in a frame
}

// Options holds the dependencies and settings of a server. Fields without a default are required.
type Options struct {
	Authentication
	Publishing
	Delivering
	Store
	Network

	Admin      admin.Options
	Registry   *subscription.Registry
	Namespaces Namespaces
	Log        Log
	Tombstones Tombstones
	Answers    Answers // nil: 503 for requests with an Idempotency-Key

	Watches   watches.Watches // nil: 503
	Schedules schedules.Options
	Feeds     *feed.Engine // nil: 503
	Streams   dstreams.Options
	Wakes     Wakes // nil: 503
	Mirrors   mirrors.Options
	Knowledge enrichment.Knowledge // nil: 503
	Modules   modules.Modules      // nil: there are none

	Metrics  http.Handler    // for /metrics
	Requests Requests        // counts requests; nil: they are not counted
	Version  string          // version of the program; default "dev"
	Stopping context.Context //nolint:containedctx // ends when the server stops, which ends waiting requests; nil: never
	Logger   *slog.Logger    // default slog.DiscardHandler

	LogRequests RequestLog // default LogErrors
}

// Server handles HTTP requests. It is safe for concurrent use. New sets all fields; later only
// those with locks of their own change.
type Server struct {
	opts      Options
	rights    httpkit.Rights
	streams   *dstreams.Handler
	admin     *admin.Handler
	access    *access.Handler
	feeds     *live.Handler
	mirrors   *mirrors.Handler
	schedules *schedules.Handler
	echo      *echo.Echo
	failures  *failures
	pages     pages
	known     map[routeKey]struct{}
	root      [sha256.Size]byte // hash of the root token
	trials    oneEach
	batches   oneEach

	tails *httpkit.Places // for requests that follow attempts

	glances glances

	expressions keylock.Turns[sluice.Principal] // one evaluation at a time for each principal
}

const (
	defaultMaxBody      = 8 << 20
	defaultFailureEvery = 6 * time.Second
)

// New returns a server without a listener; serve its handler.
func New(opts Options) *Server {
	opts.Version = cmp.Or(opts.Version, "dev")
	opts.MaxBody = cmp.Or(opts.MaxBody, defaultMaxBody)
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	opts.LogRequests = cmp.Or(opts.LogRequests, LogErrors)
	opts.PortalTitle = cmp.Or(opts.PortalTitle, "Webhooks")
	opts.MetricsFor = cmp.Or(opts.MetricsFor, MetricsLoopback)
	s := &Server{opts: opts, rights: httpkit.Rights{Index: opts.Access}, echo: echo.New(), known: map[routeKey]struct{}{}, tails: httpkit.NewPlaces(tailsAtOnce, tailsOfOne), failures: newFailures(opts.FailureBurst, cmp.Or(opts.FailureEvery, defaultFailureEvery)), root: sha256.Sum256([]byte(opts.Token))}
	s.pages = newPages(opts.Version)
	s.streams = dstreams.New(opts.Streams, dstreams.Deps{Rights: s.rights, Admit: s.admit, Deleted: s.ended, UntilEnd: s.untilEnd})
	s.admin = admin.New(opts.Admin, admin.Deps{Rights: s.rights, Storage: opts.Storage, Verify: opts.Verify, ForgetDamage: opts.ForgetDamage, Pprof: opts.Pprof})
	s.access = access.New(access.Deps{Authority: opts.Authority, Rights: s.rights, PublicURL: opts.PublicURL, Namespace: s.namespace, UntilEnd: s.untilEnd})
	s.feeds = live.New(live.Deps{
		Feeds: opts.Feeds, Rights: s.rights, PublicURL: opts.Streams.PublicURL, Authority: s.access.Authority, Namespace: s.namespace,
		Mirrors: opts.Mirrors.Mirrors, LongPoll: s.streams.Wait(), StartsAtShown: s.startsAtShown, UntilStop: s.untilStop, UntilEnd: s.untilEnd, Stopping: s.stopping,
	})
	s.mirrors = mirrors.New(opts.Mirrors, mirrors.Deps{
		Rights: s.rights, Log: opts.Log, Tombstones: opts.Tombstones, Room: opts.Room, Label: opts.label(), PublicURL: opts.Streams.PublicURL, UntilStop: s.untilStop, Logger: opts.Logger,
	})
	s.schedules = schedules.New(opts.Schedules, schedules.Deps{Rights: s.rights, Ingest: opts.Ingest, Namespace: s.namespace, EventAt: s.eventAt})
	s.echo.IPExtractor = addressOf(opts.TrustedProxies)
	s.echo.Pre(before(s.streams.AtRoot, dstreams.Rooted))
	s.echo.Use(before(s.secured()), s.observe, before(s.authenticate, s.fits))
	for _, r := range s.routes() {
		s.echo.Add(r.Method, r.Path, s.guard(r))
		s.known[routeKey{r.Method, r.Path}] = struct{}{}
	}
	return s
}

// Handler returns the handler of all requests.
func (s *Server) Handler() http.Handler { return s.echo }

// untilStop returns a context that ends with ctx or with the server. The caller must call the
// function, which otherwise stays registered until the server ends.
func (s *Server) untilStop(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	if s.opts.Stopping == nil {
		return ctx, cancel
	}
	detach := context.AfterFunc(s.opts.Stopping, cancel) // no goroutine: there may be thousands
	return ctx, func() {
		detach()
		cancel()
	}
}

// untilEnd is untilStop for a request that waits: the context also ends with the caller's grant.
// authz.Lost then returns the reason.
func (s *Server) untilEnd(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := s.untilStop(ctx)
	if s.opts.Access == nil {
		return ctx, cancel
	}
	ctx, leave := s.opts.Access.While(ctx, model.CallerFrom(ctx))
	return ctx, func() {
		leave()
		cancel()
	}
}

// stopping reports whether the server is shutting down.
func (s *Server) stopping() bool { return s.opts.Stopping != nil && s.opts.Stopping.Err() != nil }

// namespace returns a namespace. Code NotFound if it does not exist.
func (s *Server) namespace(ctx context.Context, name string) (sluice.Namespace, error) {
	return s.opts.Namespaces.Namespace(ctx, name)
}

// label returns the function that returns the label of a namespace; nil if there are no grants.
func (o *Options) label() func(namespace string) sluice.Label {
	if o.Authority == nil {
		return nil
	}
	return o.Authority.Label
}

// eventAt returns the event with the sequence. Codes NotFound; WindowExceeded.
func (s *Server) eventAt(ctx context.Context, namespace string, seq uint64) (sluice.Event, error) {
	return s.opts.Log.EventAt(ctx, namespace, seq)
}
