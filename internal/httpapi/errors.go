package httpapi

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strconv"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/internal/httpapi/dstreams"
	"github.com/sluice-io/sluice/internal/httpapi/httpkit"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// retryAfter returns the delay in seconds before a retry: from the error, or one second.
func retryAfter(e *sluice.Error) string {
	seconds, _ := e.Details["retry_after"].(int)
	return strconv.Itoa(max(1, seconds))
}

// fail writes the response of a failed request. It writes nothing if the response has begun.
func (s *Server) fail(c echo.Context, err error) {
	if c.Response().Committed {
		return
	}
	e := unrouted(c, err)
	if e == nil {
		e = httpkit.Conceal(httpkit.Caller(c), httpkit.Public(err))
	}
	header := c.Response().Header()
	switch e.Code { //nolint:exhaustive // the other codes have no header of their own
	case sluice.Unauthenticated, sluice.WakeTokenExpired, sluice.WakeTokenInvalid:
		header.Set(echo.HeaderWWWAuthenticate, `Bearer realm="sluice"`)
	case sluice.QuotaExceeded, sluice.Unavailable:
		header.Set(echo.HeaderRetryAfter, retryAfter(e))
	}
	body, code := saidOf(c, err, e)
	s.answer(c, code, body)
}

// saidOf returns the body and status of an error response. Callbacks (S1) and Durable Streams have
// their own formats.
func saidOf(c echo.Context, err error, e *sluice.Error) (body any, code int) {
	if isCallback(c) {
		return refusal(c, e), httpkit.Status(e.Code)
	}
	if body, code, ok := dstreams.Refusal(c, err); ok {
		return body, code
	}
	f := httpkit.Failure{Error: httpkit.FailureError{Code: e.Code, Message: e.Message, Details: e.Details}, RequestID: c.Response().Header().Get(echo.HeaderXRequestID)}
	if f.Error.Details == nil {
		f.Error.Details = map[string]any{}
	}
	return f, httpkit.Status(e.Code)
}

// answer sends the body of an error, with <, > and & as they are, for people at a terminal.
func (s *Server) answer(c echo.Context, status int, body any) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	err := e.Encode(body)
	if err == nil {
		err = c.JSONBlob(status, text.Bytes())
	}
	if err != nil {
		// The client has disconnected.
		s.opts.Logger.LogAttrs(c.Request().Context(), slog.LevelDebug, "answer", slog.Any("error", err))
	}
}
