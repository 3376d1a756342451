package httpapi

import (
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/pkg/sluice"
)

const maxRequestID = 128

// panicked is a panic of a handler, with the stack that it had.
type panicked struct {
	value any
	stack []byte
}

func (p *panicked) Error() string { return fmt.Sprintf("panic: %v\n%s", p.value, p.stack) }

// before has something done before a request is served, unless it fails. It is over by then, and so takes no room in the
// stack of a request that is served for hours.
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

// observe gives every request an id, turns its error into an answer and logs one line of it.
func (s *Server) observe(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		began := time.Now()
		id := requestID(c.Request().Header.Get(echo.HeaderXRequestID))
		c.Response().Header().Set(echo.HeaderXRequestID, id)
		c.SetRequest(c.Request().WithContext(sluice.WithRequestID(c.Request().Context(), id)))
		incoming := s.receive(c)
		err := guarded(next, c)
		if err != nil {
			err = s.refuse(c, err)
			s.fail(c, err)
		}
		s.log(c, err, time.Since(began))
		s.linger(c, incoming)
		return nil
	}
}

// guarded returns a handler's panic as an error.
func guarded(next echo.HandlerFunc, c echo.Context) (err error) {
	defer func() {
		switch value := recover(); value {
		case nil:
		case http.ErrAbortHandler:
			panic(value) // the server ends the connection without a word, as it is meant to
		default:
			err = &panicked{value, debug.Stack()}
		}
	}()
	return next(c)
}

// requestID returns the caller's id if it is harmless in a log, else a new one.
func requestID(given string) string {
	strange := func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '"' || r == '\\' }
	if given != "" && len(given) <= maxRequestID && !strings.ContainsFunc(given, strange) {
		return given
	}
	id, err := uuid.NewV7()
	if err != nil {
		return uuid.Nil.String() // the system has no randomness: the request is served all the same
	}
	return id.String()
}

func (s *Server) log(c echo.Context, err error, took time.Duration) {
	ctx, req, res := c.Request().Context(), c.Request(), c.Response()
	if !s.opts.Logger.Enabled(ctx, levelOf(c)) {
		return
	}
	attrs := []slog.Attr{
		slog.String("method", req.Method), slog.String("path", req.URL.Path), slog.String("route", c.Path()),
		slog.Int("status", res.Status), slog.Int64("bytes", res.Size), slog.Duration("took", took),
		slog.String("request_id", res.Header().Get(echo.HeaderXRequestID)),
	}
	if caller := sluice.CallerFrom(ctx); caller.Principal != "" {
		attrs = append(attrs, slog.String("principal", string(caller.Principal)))
	}
	if err != nil {
		attrs = append(attrs, slog.String("code", string(public(err).Code)))
	}
	if res.Status >= http.StatusInternalServerError {
		attrs = append(attrs, slog.Any("error", err))
	}
	s.opts.Logger.LogAttrs(ctx, levelOf(c), "request", attrs...)
}

// levelOf returns how much a request matters: probes come every second, a client that has gone
// is no error of ours.
func levelOf(c echo.Context) slog.Level {
	switch {
	case isProbe(c.Path()):
		return slog.LevelDebug
	case c.Response().Status >= http.StatusInternalServerError && c.Request().Context().Err() == nil:
		return slog.LevelError
	}
	return slog.LevelInfo
}

func isProbe(route string) bool {
	return route == "/healthz" || route == "/readyz" || route == "/metrics"
}

// isAPI reports whether whoever asks there has to say who it is.
func isAPI(path string) bool {
	return path == "/v1" || strings.HasPrefix(path, "/v1/") || isStream(path)
}
