package httpapi

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// healthz reports that the process responds. It asks nothing else, so a broken store does not get
// the process restarted.
func (s *Server) healthz(c echo.Context) error {
	return c.JSON(http.StatusOK, map[string]bool{"ok": true})
}

// readiness is the body of /readyz. A full store can still be administered, so the server is ready.
type readiness struct {
	OK      bool                `json:"ok"`
	Storage sluice.StorageLevel `json:"storage"`
	Problem string              `json:"problem,omitempty"` // problem of the store, and its remedy
}

// readyz reports whether requests can be served: NATS and JetStream respond, and the disk accepts
// writes. Code Unavailable otherwise.
func (s *Server) readyz(c echo.Context) error {
	if err := s.opts.Ready(c.Request().Context()); err != nil {
		return err
	}
	is := readiness{OK: true, Storage: s.storageLevel()}
	if s.opts.Problem != nil {
		is.Problem = s.opts.Problem()
	}
	return c.JSON(http.StatusOK, is)
}

// storageLevel returns the level of the store; ample if it is not watched.
func (s *Server) storageLevel() sluice.StorageLevel {
	if s.opts.Room == nil {
		return sluice.StorageAmple
	}
	return s.opts.Room.Level()
}
