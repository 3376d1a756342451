package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/internal/httpapi/httpkit"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// RequestLog says which requests are logged above level debug.
type RequestLog string

// The values of RequestLog. Refused requests are those with a status of 400 to 499.
const (
	LogErrors RequestLog = "errors" // refused and failed ones; the default
	LogSlow   RequestLog = "slow"   // these, and answers that took a second or more
	LogAll    RequestLog = "all"
	LogNone   RequestLog = "none"
)

const slowRequest = time.Second

// level returns the level of a request's line.
func (l RequestLog) level(r *served, took time.Duration) slog.Level {
	failed := r.status >= http.StatusBadRequest && r.status != statusLeft || r.level == slog.LevelError // even if it failed after the response had begun
	wanted := false
	switch l {
	case LogAll:
		wanted = true
	case LogNone:
	case LogSlow:
		wanted = failed || took >= slowRequest && !r.waits
	case LogErrors:
		wanted = failed
	}
	if !wanted {
		return slog.LevelDebug
	}
	return r.level
}

// waits reports whether a request is expected to take long because it follows or polls for news.
func waits(c echo.Context) bool {
	res, query := c.Response(), c.Request().URL.RawQuery
	return res.Status == http.StatusSwitchingProtocols || strings.Contains(query, "live=") || strings.Contains(query, "wait=") ||
		strings.HasPrefix(res.Header().Get(echo.HeaderContentType), "text/event-stream")
}

// served is the log record of a request.
type served struct {
	level                   slog.Level
	method, path, route, id string
	status                  int
	bytes                   int64
	principal               sluice.Principal
	waits                   bool // expected to take long
}

// servedOf copies the record out of the context, which is reused after the request.
func servedOf(c echo.Context) served {
	req, res := c.Request(), c.Response()
	return served{
		level: levelOf(c), method: req.Method, path: req.URL.Path, route: c.Path(), id: res.Header().Get(echo.HeaderXRequestID),
		status: res.Status, bytes: res.Size, principal: httpkit.Caller(c).Principal, waits: waits(c),
	}
}

// log counts a request that has ended, and writes its line.
func (s *Server) log(ctx context.Context, r served, took time.Duration, err error) {
	s.count(&r, took)
	if sluice.IsFull(err) && r.level == slog.LevelError { // logged once by the server
		r.level = slog.LevelInfo
	}
	r.level = s.opts.LogRequests.level(&r, took)
	if !s.opts.Logger.Enabled(ctx, r.level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("method", r.method), slog.String("path", r.path), slog.String("route", r.route),
		slog.Int("status", r.status), slog.Int64("bytes", r.bytes), slog.Duration("took", took),
		slog.String("request_id", r.id),
	}
	if r.principal != "" {
		attrs = append(attrs, slog.String("principal", string(r.principal)))
	}
	if err != nil {
		attrs = append(attrs, slog.String("code", string(httpkit.Public(err).Code)))
	}
	if r.status >= http.StatusInternalServerError || r.level == slog.LevelError {
		attrs = append(attrs, slog.Any("error", err))
	}
	s.opts.Logger.LogAttrs(ctx, r.level, "request", attrs...)
}

// levelOf returns the log level of a request: probes come every second, and disconnected clients
// are not errors.
func levelOf(c echo.Context) slog.Level {
	switch {
	case isProbe(c.Path()):
		return slog.LevelDebug
	case c.Response().Status >= http.StatusInternalServerError && c.Request().Context().Err() == nil:
		return slog.LevelError
	}
	return slog.LevelInfo
}

// Requests counts the requests that have ended.
type Requests interface {
	Served(r model.Served)
}

// routeKey names a route.
type routeKey struct{ method, path string }

// count counts a request. A path or method of no route is not used as a label, because the caller
// may choose any text.
func (s *Server) count(r *served, took time.Duration) {
	if s.opts.Requests == nil {
		return
	}
	is := model.Served{Method: r.method, Route: r.route, Status: r.status, Took: took, Waits: r.waits}
	if _, known := s.known[routeKey{r.method, r.route}]; !known {
		is.Route = model.Unrouted
		if !slices.Contains([]string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions}, r.method) {
			is.Method = model.Other
		}
	}
	s.opts.Requests.Served(is)
}
