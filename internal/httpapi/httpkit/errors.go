package httpkit

import (
	"context"
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Codes specific to HTTP.
const (
	MethodNotAllowed sluice.Code = "method_not_allowed"
	UnsupportedMedia sluice.Code = "unsupported_media_type"
)

// Status returns the HTTP status of a code. It is 500 for a code that it does not know.
func Status(code sluice.Code) int {
	switch code {
	case sluice.InvalidRequest, sluice.WakeInvalid:
		return http.StatusBadRequest
	case sluice.Unauthenticated, sluice.WakeTokenExpired, sluice.WakeTokenInvalid, sluice.TokenInvalid, sluice.TokenExpired:
		return http.StatusUnauthorized
	case sluice.Forbidden, sluice.CapabilityRequired, sluice.UnknownKey:
		return http.StatusForbidden
	case sluice.NotFound, sluice.SubscriptionMissing:
		return http.StatusNotFound
	case MethodNotAllowed:
		return http.StatusMethodNotAllowed
	case UnsupportedMedia:
		return http.StatusUnsupportedMediaType
	case sluice.Conflict, sluice.SubscriptionDiffers, sluice.SubscriptionExists, sluice.MirrorCycle, sluice.MirrorSuspended, sluice.EventLoopDetected, sluice.WakeTaken, sluice.WakeOffset, sluice.WakeStale,
		sluice.BundleImported, sluice.BundleGap, sluice.BundleFork, sluice.OriginReplaced, sluice.Fenced:
		return http.StatusConflict
	case sluice.WindowExceeded, sluice.StreamGone, sluice.WakeGone:
		return http.StatusGone
	case sluice.RevisionMismatch:
		return http.StatusPreconditionFailed
	case sluice.TooLarge:
		return http.StatusRequestEntityTooLarge
	case sluice.InsecureURL, sluice.BlockedAddress, sluice.UnknownFilter, sluice.Ambiguous,
		sluice.SecretTooShort, sluice.WakeNotSupported, sluice.UnknownEventType, sluice.InvalidEventData, sluice.Unprocessable,
		sluice.NoMatchingSubscription, sluice.BundleSignatureInvalid:
		return http.StatusUnprocessableEntity
	case sluice.QuotaExceeded:
		return http.StatusTooManyRequests
	case sluice.Unavailable:
		return http.StatusServiceUnavailable
	case sluice.Internal:
	}
	return http.StatusInternalServerError
}

// Failure is the body of every error response.
//
//	{"ok":false,"error":{"code":"not_found","message":"…","details":{}},"request_id":"…"}
type Failure struct {
	OK        bool         `json:"ok"`
	Error     FailureError `json:"error"`
	RequestID string       `json:"request_id"`
}

// FailureError describes the error in a Failure.
type FailureError struct {
	Code    sluice.Code    `json:"code"`
	Message string         `json:"message"`
	Details map[string]any `json:"details"`
}

// refusal is an error with the codes of another protocol.
type refusal interface {
	error
	Public() *sluice.Error // in the codes of the API
}

// Public returns the part of an error that the caller may see. The rest goes to the log.
func Public(err error) *sluice.Error {
	if e, ok := errors.AsType[*sluice.Error](err); ok && e.Code != sluice.Internal {
		return e
	}
	if e, ok := errors.AsType[refusal](err); ok {
		return e.Public()
	}
	if e, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return sluice.Errorf(sluice.TooLarge, "the body is larger than %d bytes; send less", e.Limit).With("limit", e.Limit)
	}
	if e, ok := errors.AsType[*echo.HTTPError](err); ok {
		switch e.Code {
		case http.StatusNotFound:
			return sluice.Errorf(sluice.NotFound, "no resource at this URL; see /docs")
		case http.StatusMethodNotAllowed:
			return sluice.Errorf(MethodNotAllowed, "this method is not allowed at this URL; see /docs")
		}
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return sluice.Errorf(sluice.Unavailable, "the request timed out; retry")
	}
	return sluice.Errorf(sluice.Internal, "internal error; the server's log has the details under the request ID")
}

// Conceal replaces the error for a missing resource, so that it is the same as for a hidden one.
func Conceal(who sluice.Caller, e *sluice.Error) *sluice.Error {
	if who.Unbounded() || e.Code != sluice.NotFound && e.Code != sluice.SubscriptionMissing {
		return e
	}
	return sluice.Errorf(e.Code, "not found, or not visible to you")
}
