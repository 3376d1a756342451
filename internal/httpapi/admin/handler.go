package admin

import (
	"context"
	"net/http"
	"sync"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/internal/authz"
	"github.com/sluice-io/sluice/internal/httpapi/httpkit"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Options holds the parts of a server that are administered.
type Options struct {
	Audit     Audit
	Keys      Keys
	JWKS      func(context.Context) ([]byte, error) // the public keys as a JWK set
	Producers Producers
	Settings  []sluice.Setting // of this server, without secrets
}

// Deps holds the parts of the API that a handler needs.
type Deps struct {
	Rights       httpkit.Rights
	Storage      func(context.Context) (sluice.Storage, error)
	Verify       func(context.Context) (sluice.Verification, error) // starts a verification
	ForgetDamage func(context.Context) error
	Pprof        bool // profiles of the process are served to its admins
}

// Handler handles the requests of administrators.
type Handler struct {
	opts  Options
	needs Deps

	profiling sync.Mutex // one profile at a time
}

// New returns a handler.
func New(opts Options, needs Deps) *Handler { return &Handler{opts: opts, needs: needs} }

// Routes returns the routes of administrators, and that of the public keys.
func (s *Handler) Routes() []httpkit.Route {
	admin := s.needs.Rights.ServerAdmin
	return []httpkit.Route{
		httpkit.On(http.MethodGet, "/.well-known/jwks.json", httpkit.Open, s.jwks),
		httpkit.On(http.MethodGet, "/v1/storage", admin, s.storage),
		httpkit.On(http.MethodPost, "/v1/storage/verify", admin, s.verifyStorage),
		httpkit.On(http.MethodDelete, "/v1/storage/damage", admin, s.forgetDamage),
		httpkit.OnPages("/v1/audit", s.ledgerAdmin, s.listAudit, "namespace", "resource", "action", "actor", "since", "until"),
		httpkit.On(http.MethodGet, "/v1/keys", admin, s.listKeys),
		httpkit.On(http.MethodPost, "/v1/keys/rotate", admin, s.rotateKey),
		httpkit.On(http.MethodGet, "/v1/settings", admin, s.listSettings),
		httpkit.OnPages("/v1/producers/unsafe", admin, s.listUnsafe),
		httpkit.On(http.MethodDelete, "/v1/producers/unsafe/:producer", admin, s.clearUnsafe),
		httpkit.On(http.MethodGet, "/v1/secrets", admin, s.sealing),
		httpkit.On(http.MethodGet, "/v1/debug/pprof/:profile", admin, s.profile, "seconds", "debug"),
	}
}

// ledgerAdmin requires an admin of the ledger entries' scope.
func (s *Handler) ledgerAdmin(c echo.Context) error {
	return s.needs.Rights.Require(c, sluice.VerbAdmin, authz.Target{Namespace: c.QueryParam("namespace")})
}
