package sluice

import (
	"errors"
	"fmt"
)

// Code identifies an error that a caller can act on. Errors without a code are internal.
type Code string

// The codes in responses; the API contract lists the HTTP status of each.
const (
	InvalidRequest      Code = "invalid_request"
	Unauthenticated     Code = "unauthenticated"
	Forbidden           Code = "forbidden"
	CapabilityRequired  Code = "capability_required"
	NotFound            Code = "not_found"
	SubscriptionMissing Code = "subscription_not_found"
	Conflict            Code = "conflict"
	SubscriptionDiffers Code = "subscription_conflict"
	SubscriptionExists  Code = "subscription_exists"
	MirrorCycle         Code = "mirror_cycle"
	MirrorSuspended     Code = "mirror_suspended"
	EventLoopDetected   Code = "event_loop_detected"
	WindowExceeded      Code = "replay_window_exceeded"
	StreamGone          Code = "gone"
	RevisionMismatch    Code = "revision_mismatch"
	TooLarge            Code = "too_large"
	InsecureURL         Code = "insecure_url"
	BlockedAddress      Code = "blocked_address"
	UnknownFilter       Code = "unknown_filter"
	Ambiguous           Code = "ambiguous_subscription"
	SecretTooShort      Code = "secret_too_short"
	WakeNotSupported    Code = "wake_not_supported"
	UnknownEventType    Code = "unknown_event_type"
	InvalidEventData    Code = "invalid_event_data"
	Unprocessable       Code = "unprocessable"
	QuotaExceeded       Code = "quota_exceeded"
	Unavailable         Code = "unavailable"
	Internal            Code = "internal"

	UnknownKey             Code = "unknown_key"
	NoMatchingSubscription Code = "no_matching_subscription"
	BundleSignatureInvalid Code = "bundle_signature_invalid"
	BundleImported         Code = "bundle_imported"
	BundleGap              Code = "bundle_gap"
	BundleFork             Code = "bundle_fork"
	OriginReplaced         Code = "origin_replaced"

	TokenInvalid Code = "token_invalid" // token of a worker; the Durable Streams protocol has the same three codes
	TokenExpired Code = "token_expired"
	Fenced       Code = "fenced" // the claim has ended
)

// Error is an error that can be shown to the caller. It contains nothing internal.
type Error struct {
	Code    Code           `json:"code"`
	Message string         `json:"message"`
	Details map[string]any `json:"details,omitempty"` // JSON-encodable
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// Errorf returns an *Error with a formatted message.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// With adds one detail and returns e.
func (e *Error) With(key string, value any) *Error {
	if e.Details == nil {
		e.Details = map[string]any{}
	}
	e.Details[key] = value
	return e
}

// CodeOf returns the code of the first *Error in err's chain: "" for nil, Internal if the chain has
// none.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return Internal
}
