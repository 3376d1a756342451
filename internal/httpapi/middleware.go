package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/internal/httpapi/dstreams"
	"github.com/sluice-io/sluice/internal/httpapi/httpkit"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

const maxRequestID = 128

// panicked is a panic of a handler, with its stack.
type panicked struct {
	value any
	stack []byte
}

func (p *panicked) Error() string { return fmt.Sprintf("panic: %v\n%s", p.value, p.stack) }

// before runs functions before a request is served; the first error ends the request. Unlike nested
// middleware, they take no space on the stack of a request that runs for hours.
func before(all ...echo.HandlerFunc) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			for _, one := range all {
				if err := one(c); err != nil {
					return err
				}
			}
			return next(c)
		}
	}
}

// observe gives every request an ID, turns its error into a response and logs one line. The work
// before and after the handler is in separate functions, which take no space on the stack of a
// request that runs for hours.
func (s *Server) observe(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		began, incoming := time.Now(), s.begin(c)
		s.finish(c, guarded(next, c), began)
		s.linger(c, incoming)
		return nil
	}
}

func (s *Server) begin(c echo.Context) *incoming {
	id := requestID(c.Request().Header.Get(echo.HeaderXRequestID))
	c.Response().Header().Set(echo.HeaderXRequestID, id)
	c.SetRequest(c.Request().WithContext(model.WithRequestID(c.Request().Context(), id)))
	return s.receive(c)
}

// finish responds to a failed request and logs it. A request with work that continues after the
// response is logged when that work ends.
func (s *Server) finish(c echo.Context, err error, began time.Time) {
	if err == nil && s.goOn(c, began) {
		return
	}
	switch {
	case err == nil:
	case hasLeft(c, err):
		c.Response().Status = statusLeft
	default:
		err = s.refuse(c, err)
		s.fail(c, err)
	}
	s.log(c.Request().Context(), servedOf(c), time.Since(began), err)
}

// statusLeft is the status, in the log and in metrics, of a request whose client closed the
// connection before the response. Browsers do that when the user leaves a page; it is not a failure
// of the server.
const statusLeft = 499

func hasLeft(c echo.Context, err error) bool {
	return errors.Is(err, context.Canceled) && c.Request().Context().Err() != nil && !c.Response().Committed
}

// guarded returns a handler's panic as an error.
func guarded(next echo.HandlerFunc, c echo.Context) (err error) {
	defer func() {
		if p := caught(recover()); p != nil {
			err = p
		}
	}()
	return next(c)
}

// caught converts a recovered value to an error, nil if there was none.
func caught(value any) error {
	switch value {
	case nil:
		return nil
	case http.ErrAbortHandler:
		panic(value) // the server closes the connection, as intended
	}
	return &panicked{value, debug.Stack()}
}

// requestID returns the caller's ID if it is safe to log, otherwise a new one.
func requestID(given string) string {
	strange := func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '"' || r == '\\' }
	if given != "" && len(given) <= maxRequestID && !strings.ContainsFunc(given, strange) {
		return given
	}
	id, err := uuid.NewV7()
	if err != nil {
		return uuid.Nil.String() // the system has no randomness; serve the request anyway
	}
	return id.String()
}

func isProbe(route string) bool {
	return route == "/livez" || route == "/healthz" || route == "/readyz" || route == "/metrics"
}

// isAPI reports whether a path requires authentication.
func isAPI(path string) bool {
	return path == "/v1" || strings.HasPrefix(path, "/v1/") || dstreams.IsStream(path)
}

// goOn starts the work that continues after a request, and reports whether there is any.
func (s *Server) goOn(c echo.Context, began time.Time) bool {
	a, ok := httpkit.AfterOf(c)
	if !ok {
		return false
	}
	ctx, cancel := s.untilStop(context.WithoutCancel(c.Request().Context()))
	r := servedOf(c) // of this request; the context is reused soon
	go func() {
		defer a.End()
		defer cancel()
		err := continued(ctx, cancel, a.Run)
		if err != nil && httpkit.Public(err).Code == sluice.Internal {
			r.level = slog.LevelError
		}
		r.bytes = a.Sent()
		s.log(ctx, r, time.Since(began), err)
	}()
	return true
}

// continued runs the work after a request, and returns a panic as an error.
func continued(ctx context.Context, end context.CancelFunc, run func(context.Context, context.CancelFunc) error) (err error) {
	defer func() {
		if p := caught(recover()); p != nil {
			err = p
		}
	}()
	return run(ctx, end)
}
