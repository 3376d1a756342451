package httpapi

import (
	"context"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/internal/httpapi/httpkit"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Tombstones erases paths from a namespace's log.
type Tombstones interface {
	// Erase deletes all events on the path. When it returns, no replica sends them any more. Code
	// NotFound for the namespace.
	Erase(ctx context.Context, by sluice.Caller, namespace string, path sluice.Path) (sluice.Tombstone, error)
	// Tombstones returns the tombstones of a namespace, by path.
	Tombstones(namespace string) []sluice.Tombstone
}

// erase permanently erases everything on a path. It answers POST /v1/namespaces/{ns}/tombstones for
// admins. When it answers 201, no replica sends an erased event. A repetition covers the events
// that were published since. Code InvalidRequest for a system path.
func (s *Server) erase(c echo.Context) error {
	if s.opts.Tombstones == nil {
		return sluice.Errorf(sluice.Unavailable, "this server does not support tombstones")
	}
	var req struct {
		Path string `json:"path"`
	}
	if err := httpkit.Bind(c, &req); err != nil {
		return err
	}
	path, err := sluice.StoredPath(req.Path)
	if err != nil {
		return err
	}
	if path.Reserved() {
		return sluice.Errorf(sluice.InvalidRequest, "path %q is a system path and cannot be erased", path).With("field", "path")
	}
	t, err := s.opts.Tombstones.Erase(c.Request().Context(), httpkit.Caller(c), c.Param("ns"), path)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusCreated, t)
}

// listTombstones answers GET /v1/namespaces/{ns}/tombstones for admins, by path, without pages.
func (s *Server) listTombstones(c echo.Context) error {
	if s.opts.Tombstones == nil {
		return sluice.Errorf(sluice.Unavailable, "this server does not support tombstones")
	}
	return c.JSON(http.StatusOK, map[string][]sluice.Tombstone{"tombstones": s.opts.Tombstones.Tombstones(c.Param("ns"))})
}
