package httpapi

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/internal/httpapi/httpkit"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Programs identifies the programs of modules.
type Programs interface {
	// Handling returns the handling of the program that holds a token. Code Unauthenticated.
	Handling(token string) (*model.Handling, error)
}

// isProgram reports whether a request has the token of a module's program.
func (s *Server) isProgram(c echo.Context) bool {
	return s.opts.Programs != nil && model.OfProgram(httpkit.Bearer(c.Request().Header))
}

// authenticateProgram identifies the program of a request. A program may make few kinds of
// requests, all in the namespace of the event that it handles. Its principal has no rights of its
// own: the handler of each request checks what the module declares and what its approver may do.
func (s *Server) authenticateProgram(c echo.Context) error {
	h, err := s.opts.Programs.Handling(httpkit.Bearer(c.Request().Header))
	if err != nil {
		return err
	}
	if c.Param("ns") != h.Namespace || !programMay(h, c.Request().Method+" "+c.Path()) {
		return sluice.Errorf(sluice.Forbidden, "the token of a program permits, in the namespace of the event that it handles, what its module declares: to publish events, and to read events and state")
	}
	ctx := model.WithCaller(model.WithHandling(c.Request().Context(), h), sluice.Caller{Principal: h.Producer()})
	c.SetRequest(c.Request().WithContext(ctx))
	return nil
}

// programMay reports whether the declarations of a program's module permit requests of a route.
func programMay(h *model.Handling, route string) bool {
	switch route {
	case http.MethodPost + " /v1/namespaces/:ns/events":
		return len(h.Publish) > 0 && !h.Test
	case http.MethodGet + " /v1/namespaces/:ns/events", http.MethodGet + " /v1/namespaces/:ns/events/:event",
		http.MethodGet + " /v1/namespaces/:ns/state", http.MethodGet + " /v1/namespaces/:ns/state/*":
		return len(h.Read) > 0
	}
	return false
}
