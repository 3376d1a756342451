package access

import (
	"context"
	"net/http"

	"github.com/sluice-io/sluice/internal/grants"
	"github.com/sluice-io/sluice/internal/httpapi/httpkit"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Deps holds the parts of the API that a handler needs.
type Deps struct {
	Authority *grants.Authority // nil: 503
	Rights    httpkit.Rights
	PublicURL string // of the server, if the operator has set it; for links
	Namespace func(ctx context.Context, name string) (sluice.Namespace, error)
	// UntilEnd returns a context that ends with ctx, with the server or with the caller's grant.
	UntilEnd func(ctx context.Context) (context.Context, context.CancelFunc)
}

// Handler handles the requests for rights.
type Handler struct {
	needs   Deps
	opening *httpkit.Places // for links that are being opened
}

// New returns a handler.
func New(needs Deps) *Handler {
	return &Handler{needs: needs, opening: httpkit.NewPlaces(opensAtOnce, opensOfOne)}
}

// Routes returns the routes of rights.
func (s *Handler) Routes() []httpkit.Route {
	return []httpkit.Route{
		httpkit.On(http.MethodGet, "/v1/whoami", httpkit.Authenticated, s.whoami, "wait"),

		httpkit.On(http.MethodPost, "/v1/grants", httpkit.Authenticated, s.mintGrant),
		httpkit.OnPages("/v1/grants", httpkit.Authenticated, s.listGrants, "principal", "namespace", "state"),
		httpkit.On(http.MethodPost, "/v1/grants/verify", httpkit.Authenticated, s.verifyToken),
		httpkit.On(http.MethodGet, "/v1/grants/:grant", httpkit.Authenticated, s.getGrant),
		httpkit.On(http.MethodPost, "/v1/grants/:grant/renew", httpkit.Authenticated, s.renewGrant),
		httpkit.On(http.MethodPost, "/v1/grants/:grant/revoke", httpkit.Authenticated, s.revokeGrant),

		httpkit.On(http.MethodPost, LinksRoute, httpkit.Authenticated, s.createPortalLink), // the authority checks access
		httpkit.On(http.MethodPost, SessionsRoute, httpkit.Open, s.createPortalSession),

		httpkit.On(http.MethodGet, "/v1/principals", s.needs.Rights.ServerAdmin, s.listPrincipals),
		httpkit.On(http.MethodGet, "/v1/principals/:principal", s.needs.Rights.ServerAdmin, s.getPrincipal),
		httpkit.On(http.MethodPut, "/v1/principals/:principal", s.needs.Rights.ServerAdmin, s.putPrincipal),
		httpkit.On(http.MethodDelete, "/v1/principals/:principal", s.needs.Rights.ServerAdmin, s.deletePrincipal),

		httpkit.On(http.MethodGet, "/v1/namespaces/:ns/acl", s.needs.Rights.NamespaceAdmin, s.listACL),
		httpkit.On(http.MethodGet, "/v1/namespaces/:ns/acl/:principal", s.needs.Rights.NamespaceAdmin, s.getACL),
		httpkit.On(http.MethodPut, "/v1/namespaces/:ns/acl/:principal", s.needs.Rights.NamespaceAdmin, s.putACL),
		httpkit.On(http.MethodDelete, "/v1/namespaces/:ns/acl/:principal", s.needs.Rights.NamespaceAdmin, s.deleteACL),
	}
}

// Authority returns the grants component. Code Unavailable if there is none.
func (s *Handler) Authority() (*grants.Authority, error) {
	if s.needs.Authority == nil {
		return nil, sluice.Errorf(sluice.Unavailable, "this server does not support grants")
	}
	return s.needs.Authority, nil
}
