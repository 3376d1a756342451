package sluice

import (
	"net/http"
	"slices"
)

// FailureClass is the kind of failure of an attempt. There are few classes, so that failures can be
// counted per class.
type FailureClass string

// The classes.
const (
	FailTimeout    FailureClass = "timeout"    // no response within the time of an attempt, or no connection
	FailConnection FailureClass = "connection" // the connection broke, or there was no route
	FailRefused    FailureClass = "refused"    // the connection was refused: nothing listens there
	FailDNS        FailureClass = "dns"        // the host has no address
	FailTLS        FailureClass = "tls"        // certificate or handshake
	FailRedirect   FailureClass = "http_3xx"   // redirects are not followed
	FailStatus     FailureClass = "http_4xx"   // all but those below; informational ones, too
	FailAuth       FailureClass = "http_auth"  // 401, 403
	FailThrottled  FailureClass = "http_429"   // too many requests
	FailServer     FailureClass = "http_5xx"   //
	FailCredential FailureClass = "credential" // there is no access token for the endpoint
	FailUnsent     FailureClass = "not_sent"   // the address is blocked, or the request cannot be created
	FailProgram    FailureClass = "program"    // of a module
	FailOther      FailureClass = "other"      //
)

// FailureClasses returns all classes. Stored counts are in this order, so new classes come last.
func FailureClasses() []FailureClass {
	return []FailureClass{
		FailTimeout, FailConnection, FailRefused, FailDNS, FailTLS, FailRedirect, FailStatus, FailAuth, FailThrottled, FailServer, FailCredential, FailUnsent, FailProgram,
		FailOther,
	}
}

// Failure returns the class of a failed attempt; "" if the attempt delivered.
func (a *Attempt) Failure() FailureClass {
	switch {
	case a.Outcome == Delivered:
		return ""
	case a.Class != "":
		return a.Class
	case a.Outcome == Refused:
		return FailUnsent
	}
	return classOfStatus(a.Status)
}

func classOfStatus(status int) FailureClass {
	switch {
	case status == 0:
		return FailOther
	case slices.Contains([]int{http.StatusUnauthorized, http.StatusForbidden}, status):
		return FailAuth
	case status == http.StatusTooManyRequests:
		return FailThrottled
	case status >= 500:
		return FailServer
	case status >= 300 && status < 400:
		return FailRedirect
	}
	return FailStatus
}
