package live

import (
	"context"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/internal/feed"
	"github.com/sluice-io/sluice/internal/grants"
	"github.com/sluice-io/sluice/internal/httpapi/httpkit"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Deps holds the parts of the API that a handler needs.
type Deps struct {
	Feeds     *feed.Engine  // nil: 503
	Mirrors   Mirrors       // nil: 503
	LongPoll  time.Duration // how long a read of a mirror's stream waits for changes
	Rights    httpkit.Rights
	PublicURL string                            // public URL of the API; empty: relative URLs
	Authority func() (*grants.Authority, error) // code Unavailable if there is none
	Namespace func(ctx context.Context, name string) (sluice.Namespace, error)
	// StartsAtShown returns NotFound if one of the cursors names an event that is hidden from the
	// caller.
	StartsAtShown func(c echo.Context, v sluice.Verb, namespace string, cursors ...string) error
	// UntilStop returns a context that ends with ctx or with the server.
	UntilStop func(ctx context.Context) (context.Context, context.CancelFunc)
	// UntilEnd is UntilStop, but the context also ends with the caller's grant.
	UntilEnd func(ctx context.Context) (context.Context, context.CancelFunc)
	Stopping func() bool // the server is shutting down
}

// view is a live view: a feed of a namespace's events, or of a mirror's entries.
type view interface {
	Current() uint64 // the last position when the view was opened
	Since() uint64
	Incarnation() string
	// Run sends frames until it ends, and returns the reason.
	Run(ctx context.Context, send func([]feed.Frame) error, hurry func()) error
	// Rendered returns the text of a frame that several readers share; nil for a frame that only
	// this reader gets.
	Rendered(frame feed.Frame) []byte
	AppendFrame(b []byte, frame feed.Frame) []byte
	Close()
}

// Handler handles the requests for feeds.
type Handler struct {
	needs   Deps
	pieces  pieces
	mirrors atomic.Int64 // open readers of mirrors
}

// New returns a handler.
func New(needs Deps) *Handler { return &Handler{needs: needs} }

// Routes returns the routes of feeds.
func (s *Handler) Routes() []httpkit.Route {
	return slices.Concat(s.mirrorRoutes(), []httpkit.Route{
		httpkit.On(http.MethodGet, Route, s.somewhere, s.getFeed, append(httpkit.FilterParams(),
			"pattern", "since", "incarnation", "projection", "buffer", "coalesce_labels", "coalesce_window_ms", "coalesce_keep", "coalesce", "ticket")...),
		httpkit.On(http.MethodOptions, Route, httpkit.Open, feedOptions),
		httpkit.On(http.MethodPost, TicketRoute, s.somewhere, s.postTicket),
		httpkit.On(http.MethodOptions, TicketRoute, httpkit.Open, feedOptions),
	})
}

// somewhere requires the verb read on some path of the namespace in the URL.
func (s *Handler) somewhere(c echo.Context) error {
	return s.needs.Rights.Some(c, sluice.VerbRead, c.Param("ns"))
}
