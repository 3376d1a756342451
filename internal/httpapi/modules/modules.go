package modules

import (
	"context"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/internal/httpapi/httpkit"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Modules approves and disables modules.
type Modules interface {
	Modules(ctx context.Context) sluice.ModuleList
	// Module returns a module. Code NotFound.
	Module(ctx context.Context, name string) (sluice.Module, error)
	// Approve permits a module to run. Codes NotFound; Unprocessable; RevisionMismatch; Forbidden.
	Approve(ctx context.Context, name, digest, by string) (sluice.Module, error)
	// Disable stops a module. Code NotFound.
	Disable(ctx context.Context, name, by string) (sluice.Module, error)
	// Remove ends the approval of a module. Code NotFound.
	Remove(ctx context.Context, name, by string) error
}

type handler struct{ modules Modules }

// Routes returns the routes of modules; modules is nil if the server has none.
func Routes(modules Modules, rights httpkit.Rights) []httpkit.Route {
	const one = "/v1/modules/:module"
	s := &handler{modules}
	return httpkit.IfSupported(modules != nil, "this server has no modules", []httpkit.Route{
		httpkit.On(http.MethodGet, "/v1/modules", rights.ServerAdmin, s.listModules),
		httpkit.On(http.MethodGet, one, rights.ServerAdmin, s.getModule),
		httpkit.On(http.MethodPost, one+"/approve", rights.ServerAdmin, s.approveModule),
		httpkit.On(http.MethodPost, one+"/disable", rights.ServerAdmin, s.disableModule),
		httpkit.On(http.MethodDelete, one, rights.ServerAdmin, s.removeModule),
	})
}

// listModules answers GET /v1/modules, by name, without pages.
func (s *handler) listModules(c echo.Context) error {
	return c.JSON(http.StatusOK, s.modules.Modules(c.Request().Context()))
}

// getModule answers GET /v1/modules/{module}, with the processes of the replica that answers. Code
// NotFound.
func (s *handler) getModule(c echo.Context) error {
	m, err := s.modules.Module(c.Request().Context(), c.Param("module"))
	return showModule(c, m, err)
}

func showModule(c echo.Context, m sluice.Module, err error) error {
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, m)
}

// approveModule answers POST …/approve. The digest fences it: RevisionMismatch if the files are
// others now. Codes NotFound; Unprocessable; Forbidden.
func (s *handler) approveModule(c echo.Context) error {
	var req struct {
		Digest string `json:"digest"`
	}
	if err := httpkit.Bind(c, &req); err != nil {
		return err
	}
	if req.Digest == "" {
		return sluice.Errorf(sluice.InvalidRequest, "digest is missing: write the one of the files that you have checked").With("field", "digest")
	}
	m, err := s.modules.Approve(c.Request().Context(), c.Param("module"), req.Digest, httpkit.By(c))
	return showModule(c, m, err)
}

// disableModule answers POST …/disable. The subscriptions pause and keep their positions. Code
// NotFound.
func (s *handler) disableModule(c echo.Context) error {
	m, err := s.modules.Disable(c.Request().Context(), c.Param("module"), httpkit.By(c))
	return showModule(c, m, err)
}

// removeModule answers DELETE /v1/modules/{module} with 204. The subscriptions go with the
// approval; the files stay. Code NotFound.
func (s *handler) removeModule(c echo.Context) error {
	if err := s.modules.Remove(c.Request().Context(), c.Param("module"), httpkit.By(c)); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}
