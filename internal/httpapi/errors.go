package httpapi

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/internal/streamsub"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Codes specific to HTTP.
const (
	methodNotAllowed sluice.Code = "method_not_allowed"
	unsupportedMedia sluice.Code = "unsupported_media_type"
)

// status returns the HTTP status of a code (03-api, "Errors").
func status(code sluice.Code) int {
	switch code {
	case sluice.InvalidRequest, sluice.WakeInvalid:
		return http.StatusBadRequest
	case sluice.Unauthenticated, sluice.WakeTokenExpired, sluice.WakeTokenInvalid:
		return http.StatusUnauthorized
	case sluice.Forbidden, sluice.CapabilityRequired:
		return http.StatusForbidden
	case sluice.NotFound, sluice.SubscriptionMissing:
		return http.StatusNotFound
	case methodNotAllowed:
		return http.StatusMethodNotAllowed
	case unsupportedMedia:
		return http.StatusUnsupportedMediaType
	case sluice.Conflict, sluice.SubscriptionDiffers, sluice.EventLoopDetected, sluice.WakeTaken, sluice.WakeOffset, sluice.WakeStale:
		return http.StatusConflict
	case sluice.WindowExceeded, sluice.StreamGone, sluice.WakeGone:
		return http.StatusGone
	case sluice.RevisionMismatch:
		return http.StatusPreconditionFailed
	case sluice.TooLarge:
		return http.StatusRequestEntityTooLarge
	case sluice.InsecureURL, sluice.BlockedAddress, sluice.UnknownFilter, sluice.Ambiguous,
		sluice.SecretTooShort, sluice.WakeNotSupported, sluice.UnknownEventType, sluice.InvalidEventData, sluice.Unprocessable:
		return http.StatusUnprocessableEntity
	case sluice.QuotaExceeded:
		return http.StatusTooManyRequests
	case sluice.Unavailable:
		return http.StatusServiceUnavailable
	case sluice.Internal:
	}
	return http.StatusInternalServerError
}

// failure is the body of every error response.
type failure struct {
	OK        bool         `json:"ok"`
	Error     failureError `json:"error"`
	RequestID string       `json:"request_id"`
}

type failureError struct {
	Code    sluice.Code    `json:"code"`
	Message string         `json:"message"`
	Details map[string]any `json:"details"`
}

// controlRefusal returns the error of a control request in the protocol's form, and its status;
// false for other requests.
func controlRefusal(c echo.Context, err error) (controlFailure, int, bool) {
	if r, ok := errors.AsType[*streamsub.Refusal](err); ok {
		return controlFailure{controlError{r.Code, r.Message, r.Holder, r.Generation}}, refusalStatus(r.Code), true
	}
	e := conceal(caller(c), public(err))
	return controlFailure{controlError{Code: strings.ToUpper(string(e.Code)), Message: e.Message}}, status(e.Code), isControl(c.Path())
}

// public returns the public part of an error. The rest goes to the log.
func public(err error) *sluice.Error {
	if e, ok := errors.AsType[*sluice.Error](err); ok && e.Code != sluice.Internal {
		return e
	}
	if r, ok := errors.AsType[*streamsub.Refusal](err); ok {
		return sluice.Errorf(sluice.Code(strings.ToLower(r.Code)), "%s", r.Message)
	}
	if e, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return sluice.Errorf(sluice.TooLarge, "the body is larger than %d bytes", e.Limit).With("limit", e.Limit)
	}
	if e, ok := errors.AsType[*echo.HTTPError](err); ok {
		switch e.Code {
		case http.StatusNotFound:
			return sluice.Errorf(sluice.NotFound, "no resource at this URL; see /openapi.yaml")
		case http.StatusMethodNotAllowed:
			return sluice.Errorf(methodNotAllowed, "this method is not allowed at this URL; see /openapi.yaml")
		}
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return sluice.Errorf(sluice.Unavailable, "the request timed out; retry")
	}
	return sluice.Errorf(sluice.Internal, "internal error; the server's log has the details under the request ID")
}

// retryAfter returns the delay in seconds before a retry: from the error, or one second.
func retryAfter(e *sluice.Error) string {
	seconds, _ := e.Details["retry_after"].(int)
	return strconv.Itoa(max(1, seconds))
}

// fail writes the response of a failed request.
func (s *Server) fail(c echo.Context, err error) {
	if c.Response().Committed {
		return
	}
	e := conceal(caller(c), public(err))
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

// saidOf returns the body and status of an error response: S1 and the protocol of streams have
// formats of their own.
func saidOf(c echo.Context, err error, e *sluice.Error) (body any, code int) {
	if isCallback(c) {
		return refusal(c, e), status(e.Code)
	}
	if body, code, ok := controlRefusal(c, err); ok {
		return body, code
	}
	f := failure{Error: failureError{Code: e.Code, Message: e.Message, Details: e.Details}, RequestID: c.Response().Header().Get(echo.HeaderXRequestID)}
	if f.Error.Details == nil {
		f.Error.Details = map[string]any{}
	}
	return f, status(e.Code)
}

// answer sends the body of an error.
func (s *Server) answer(c echo.Context, status int, body any) {
	if err := c.JSON(status, body); err != nil {
		// The client has disconnected.
		s.opts.Logger.LogAttrs(c.Request().Context(), slog.LevelDebug, "answer", slog.Any("error", err))
	}
}
