package httpapi

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/internal/registry"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Namespaces keeps the namespaces and their logs.
type Namespaces interface {
	// PutNamespace makes or changes a namespace and returns it, and whether it is new. With a
	// revision it is changed only if that is the stored one: code RevisionMismatch. By is who wants it.
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

// Log reads a namespace's events.
type Log interface {
	// Read returns events in the order of the log. Codes NotFound; InvalidRequest;
	// WindowExceeded, with oldest_available_seq and current_seq.
	Read(ctx context.Context, namespace string, q EventQuery) (EventPage, error)
	// EventAt returns the event with the sequence. Codes NotFound; WindowExceeded.
	EventAt(ctx context.Context, namespace string, seq uint64) (sluice.Event, error)
	// EventByID returns the event with the id. Code NotFound.
	EventByID(ctx context.Context, namespace, id string) (sluice.Event, error)
}

// EventQuery picks events of a log. Zero values pick all that are kept.
type EventQuery struct {
	Pattern sluice.Pattern
	Types   []string // exact, or a prefix that ends in ".*"; any of them
	Since   string   // a cursor: what comes after it; with a time, what was stored then or later
	Until   string   // a cursor: up to it, inclusive
	After   uint64   // Next of the page before; goes before Since
	Limit   int
}

// EventPage is part of a log.
type EventPage struct {
	Events []sluice.Event
	Next   uint64 // for After; 0: there are no more
}

// Deliveries knows what became of a subscription's events.
type Deliveries interface {
	// Attempts returns a subscription's attempts, newest first, and where older ones are; 0: nowhere.
	Attempts(ctx context.Context, sub *sluice.Subscription, q AttemptQuery) ([]sluice.Attempt, uint64, error)
	// Status returns how a subscription is doing.
	Status(ctx context.Context, sub *sluice.Subscription) (sluice.Status, error)
	// LastAttemptAt returns when the subscription's last attempt was recorded; zero: there is none.
	LastAttemptAt(ctx context.Context, sub *sluice.Subscription) (time.Time, error)
	// Test sends a signed sample event to the subscription's endpoint, whatever its state.
	Test(ctx context.Context, sub *sluice.Subscription) (sluice.Attempt, error)
}

// AttemptQuery picks attempts. Zero values pick all.
type AttemptQuery struct {
	EventID string
	Since   time.Time
	Before  uint64
	Limit   int
}

// Options is what a server works with. What has no default is required.
type Options struct {
	Token      string // the root token; without one nobody gets in
	Registry   *registry.Registry
	Namespaces Namespaces
	Publisher  Publisher
	Log        Log
	Deliveries Deliveries
	Audit      Audit
	Ready      func(context.Context) error           // nil if requests can be served; else code Unavailable
	JWKS       func(context.Context) ([]byte, error) // the public keys as a JWK set
	Metrics    http.Handler                          // for /metrics
	Version    string                                // of the program; "dev"
	MaxBody    int64                                 // bytes of a request's body; 8 MiB
	Logger     *slog.Logger                          // one line a request; slog.DiscardHandler
}

// Server answers HTTP requests.
type Server struct {
	opts Options
	echo *echo.Echo
}

const defaultMaxBody = 8 << 20

// New returns a server, which does nothing by itself: its handler is to be served.
func New(opts Options) *Server {
	opts.Version = cmp.Or(opts.Version, "dev")
	opts.MaxBody = cmp.Or(opts.MaxBody, defaultMaxBody)
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Server{opts: opts, echo: echo.New()}
	s.echo.Use(s.observe, s.authenticate)
	s.routes()
	return s
}

// Handler returns the handler of all requests.
func (s *Server) Handler() http.Handler { return s.echo }

func (s *Server) routes() {
	s.echo.GET("/healthz", s.healthz)
	s.echo.GET("/readyz", s.readyz)
	s.echo.GET("/metrics", echo.WrapHandler(s.opts.Metrics))
	s.echo.GET("/openapi.yaml", s.openapi)
	s.echo.GET("/.well-known/jwks.json", s.jwks)

	v1 := s.echo.Group("/v1")
	v1.GET("/capabilities", s.capabilities)
	v1.GET("/audit", s.listAudit)
	v1.GET("/namespaces", s.listNamespaces)
	v1.PUT("/namespaces/:ns", s.putNamespace)
	v1.GET("/namespaces/:ns", s.getNamespace)
	v1.DELETE("/namespaces/:ns", s.deleteNamespace)
	v1.POST("/namespaces/:ns/events", s.publish)
	v1.GET("/namespaces/:ns/events", s.listEvents)
	v1.GET("/namespaces/:ns/events/:event", s.getEvent)

	v1.POST("/subscriptions", s.createSubscription)
	v1.GET("/subscriptions", s.listSubscriptions)
	v1.PUT("/subscriptions/:id", s.putSubscription)
	v1.GET("/subscriptions/:id", s.getSubscription)
	v1.PATCH("/subscriptions/:id", s.patchSubscription)
	v1.DELETE("/subscriptions/:id", s.deleteSubscription)
	v1.POST("/subscriptions/:id/pause", s.pauseSubscription)
	v1.POST("/subscriptions/:id/resume", s.resumeSubscription)
	v1.POST("/subscriptions/:id/secret/rotate", s.rotateSecret)
	v1.POST("/subscriptions/:id/test", s.testSubscription)
	v1.GET("/subscriptions/:id/status", s.subscriptionStatus)
	v1.GET("/subscriptions/:id/deliveries", s.listDeliveries)
	v1.GET("/subscriptions/:id/deliveries/:event", s.getDelivery)
}
