package watches

import (
	"context"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/internal/httpapi/httpkit"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Watches stores watches.
type Watches interface {
	// Put creates a watch, or replaces the one with its ID if may returns nil. It returns the watch
	// and whether it is new. Codes InvalidRequest; TooLarge; Forbidden; NotFound for the namespace;
	// QuotaExceeded; Conflict.
	Put(ctx context.Context, w sluice.Watch, may func(old *sluice.Watch) error) (sluice.Watch, bool, error)
	// Get returns a watch. Code NotFound.
	Get(ctx context.Context, namespace, id string) (sluice.Watch, error)
	// List returns the watches of a namespace, in no order.
	List(ctx context.Context, namespace string) ([]sluice.Watch, error)
	// Delete cancels a watch at the revision that was read. Code Conflict after a concurrent
	// change.
	Delete(ctx context.Context, w sluice.Watch, by string) error
	// Try simulates a watch over the visible events after a position. Codes InvalidRequest;
	// NotFound for the namespace; WindowExceeded.
	Try(ctx context.Context, w sluice.Watch, since uint64, shows func(*sluice.Event) bool) (sluice.WatchTrial, error)
}

// Deps holds the parts of the API that a handler needs.
type Deps struct {
	Watches   Watches // nil: 503
	Rights    httpkit.Rights
	Namespace func(ctx context.Context, name string) (sluice.Namespace, error)
	// EnterTrial starts a dry run of the caller, which ends with leave. Code QuotaExceeded.
	EnterTrial func(c echo.Context, namespace string) (leave func(), err error)
}

// Handler handles the requests for watches.
type Handler struct{ needs Deps }

// New returns a handler.
func New(needs Deps) *Handler { return &Handler{needs} }

// Routes returns the routes of watches.
func (s *Handler) Routes() []httpkit.Route {
	const one = "/v1/namespaces/:ns/watches/:id"
	return []httpkit.Route{
		httpkit.OnPages("/v1/namespaces/:ns/watches", s.needs.Rights.SeesNamespace, s.listWatches),
		httpkit.On(http.MethodPost, "/v1/namespaces/:ns/watches/test", s.needs.Rights.OnSomePath(sluice.VerbRead), s.tryWatch),
		httpkit.On(http.MethodGet, one, s.needs.Rights.SeesNamespace, s.getWatch), // the handler checks the owner
		httpkit.On(http.MethodPut, one, s.needs.Rights.OnSomePath(sluice.VerbPublish), s.putWatch),
		httpkit.On(http.MethodDelete, one, s.needs.Rights.SeesNamespace, s.deleteWatch),
	}
}
