package mirrors

import (
	"context"
	"crypto/ed25519"
	"log/slog"
	"net/http"
	"time"

	"github.com/sluice-io/sluice/internal/bundle/staging"
	"github.com/sluice-io/sluice/internal/httpapi/httpkit"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Options holds the engines and settings of a handler.
type Options struct {
	Mirrors Mirrors          // nil: 503
	Staging *staging.Staging // where directories of bundles arrive; nil: 503
	Changes Changes
	Summary func(*sluice.Event) []byte                                        // the summary of an event's data, nil if it has none (C10); nil: no event has
	Passed  func(ctx context.Context, namespace string) ([]sluice.Hop, error) // the logs whose content a namespace has in its mirrors (S3-119); nil: none

	BundleKeys func(ctx context.Context) ([]ed25519.PrivateKey, error) // for bundles, newest first; the newest signs; nil: no bundles
}

// Changes reads a namespace as another one follows it: its events, and the erasing of events.
type Changes interface {
	// Changes returns a page of the changes after a sequence. Codes NotFound; Unavailable.
	Changes(ctx context.Context, namespace string, q model.ChangeQuery) (sluice.ObservePage, error)
}

// Log reads the latest events of a namespace.
type Log interface {
	// State returns the latest event on each path at one sequence. Codes NotFound; InvalidRequest;
	// WindowExceeded, with oldest_available_seq and current_seq.
	State(ctx context.Context, namespace string, q model.StateQuery) (model.StatePage, error)
}

// Tombstones lists the paths that were erased.
type Tombstones interface {
	// Tombstones returns the tombstones of a namespace, by path.
	Tombstones(namespace string) []sluice.Tombstone
}

// Room reports whether the store has room.
type Room interface {
	Grow() error // nil if the store has room for data other than events; otherwise code Unavailable
}

// Deps holds the parts of the API that a handler needs.
type Deps struct {
	Rights     httpkit.Rights
	Log        Log
	Tombstones Tombstones
	Room       Room                                // nil: unlimited capacity
	Label      func(namespace string) sluice.Label // the label of a namespace; nil: none
	PublicURL  string                              // public URL of the API
	// UntilStop returns a context that ends with ctx or with the server.
	UntilStop func(ctx context.Context) (context.Context, context.CancelFunc)
	Logger    *slog.Logger
}

// Handler handles the requests for mirrors, bundles and changes.
type Handler struct {
	opts  Options
	needs Deps

	bundles   *httpkit.Places // for bundles in memory
	transfers *httpkit.Places // for directories in transfer
	paceTime  time.Duration   // in which the client of a directory must send or read leastPace
}

// New returns a handler.
func New(opts Options, needs Deps) *Handler {
	return &Handler{
		opts: opts, needs: needs, paceTime: paceTime,
		bundles: httpkit.NewPlaces(bundlesAtOnce, bundlesAtOnce), transfers: httpkit.NewPlaces(transfersAtOnce, transfersOfOne),
	}
}

// one is the route of one subscription.
const one = "/v1/subscriptions/:id"

// Routes returns the routes of mirrors, bundles and changes.
func (s *Handler) Routes() []httpkit.Route {
	rights := s.needs.Rights
	return append([]httpkit.Route{
		httpkit.On(http.MethodPost, one+"/sync", s.mirrored, s.syncMirror, "wait"),
		httpkit.On(http.MethodPost, one+"/suspend", s.mirrored, s.suspendMirror),
		httpkit.On(http.MethodPut, one+"/credential", s.mirrored, s.putCredential),
		httpkit.On(http.MethodGet, "/v1/namespaces/:ns/observe", rights.OnSomePath(sluice.VerbRead), s.listChanges, "since", "limit", "depth"),
		httpkit.On(http.MethodGet, "/v1/namespaces/:ns/items", rights.SeesNamespace, s.listItems, "source", "subscription", "path_prefix", "after", "limit"),
		httpkit.OnPages("/v1/namespaces/:ns/topics", rights.OnSomePath(sluice.VerbRead), s.listTopics, "include_mirrored", "path_prefix"),
	}, s.bundleRoutes()...)
}
