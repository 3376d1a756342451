package httpapi

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

func (s *Server) moduleRoutes() []httpkit.Route {
	const one = "/v1/modules/:module"
	all := []httpkit.Route{
		httpkit.On(http.MethodGet, "/v1/modules", s.rights.ServerAdmin, s.listModules),
		httpkit.On(http.MethodGet, one, s.rights.ServerAdmin, s.getModule),
		httpkit.On(http.MethodPost, one+"/approve", s.rights.ServerAdmin, s.approveModule),
		httpkit.On(http.MethodPost, one+"/disable", s.rights.ServerAdmin, s.disableModule),
		httpkit.On(http.MethodDelete, one, s.rights.ServerAdmin, s.removeModule),
	}
	for i := range all {
		handle := all[i].Handle
		all[i].Handle = func(c echo.Context) error {
			if s.opts.Modules == nil {
				return sluice.Errorf(sluice.Unavailable, "this server has no modules")
			}
			return handle(c)
		}
	}
	return all
}

func (s *Server) listModules(c echo.Context) error {
	if err := httpkit.OnlyParams(c); err != nil {
		return err
	}
	return c.JSON(http.StatusOK, s.opts.Modules.Modules(c.Request().Context()))
}

func (s *Server) getModule(c echo.Context) error {
	m, err := s.opts.Modules.Module(c.Request().Context(), c.Param("module"))
	return showModule(c, m, err)
}

func showModule(c echo.Context, m sluice.Module, err error) error {
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, m)
}

func (s *Server) approveModule(c echo.Context) error {
	var req struct {
		Digest string `json:"digest"`
	}
	if err := httpkit.Bind(c, &req); err != nil {
		return err
	}
	if req.Digest == "" {
		return sluice.Errorf(sluice.InvalidRequest, "digest is missing: write the one of the files that you have checked").With("field", "digest")
	}
	m, err := s.opts.Modules.Approve(c.Request().Context(), c.Param("module"), req.Digest, httpkit.By(c))
	return showModule(c, m, err)
}

func (s *Server) disableModule(c echo.Context) error {
	m, err := s.opts.Modules.Disable(c.Request().Context(), c.Param("module"), httpkit.By(c))
	return showModule(c, m, err)
}

func (s *Server) removeModule(c echo.Context) error {
	if err := s.opts.Modules.Remove(c.Request().Context(), c.Param("module"), httpkit.By(c)); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}
