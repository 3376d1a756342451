package endpoint

import (
	"net/textproto"
	"strings"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Limits of an endpoint's own headers: their number, and the bytes of a name and of a value.
const (
	maxHeaders     = 32
	maxHeaderName  = 128
	maxHeaderValue = 2048
)

// CheckHeaderName returns an error (InvalidRequest) if name is not a valid header name, if the
// server or HTTP itself sets the header, or if the header carries credentials, which are never
// stored (S4-71, S4-72). It also applies to the name of a signature header.
func CheckHeaderName(name string) error {
	if name == "" || len(name) > maxHeaderName || strings.ContainsFunc(name, notInToken) {
		return sluice.Errorf(sluice.InvalidRequest, "%q is not a header name", name)
	}
	if isReserved(strings.ToLower(name)) {
		return sluice.Errorf(sluice.InvalidRequest, "header %q cannot be set: requests are signed, and the server sets their descriptive headers", name)
	}
	return nil
}

// checkHeaders returns an error (InvalidRequest) unless an endpoint may have the headers. Names
// that differ only in case count as repeated.
func checkHeaders(headers map[string]string) error {
	if len(headers) > maxHeaders {
		return sluice.Errorf(sluice.InvalidRequest, "endpoint has more than %d headers", maxHeaders)
	}
	seen := make(map[string]bool, len(headers))
	for name, value := range headers {
		if err := CheckHeaderName(name); err != nil {
			return err
		}
		if len(value) > maxHeaderValue || !isHeaderValue(value) {
			return sluice.Errorf(sluice.InvalidRequest, "header %q has a value that is not at most %d bytes of printable ASCII", name, maxHeaderValue)
		}
		key := textproto.CanonicalMIMEHeaderKey(name)
		if seen[key] {
			return sluice.Errorf(sluice.InvalidRequest, "header %q is repeated", name)
		}
		seen[key] = true
	}
	return nil
}

// isReserved expects a name in lower case.
func isReserved(name string) bool {
	for _, prefix := range []string{"webhook-", "ce-", "proxy-", "sec-", ":"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	switch name {
	case "host", "user-agent", "date", "expect", "te", "trailer", "upgrade", "via",
		"connection", "keep-alive", "transfer-encoding", "accept-encoding",
		"content-length", "content-type", "content-encoding",
		"authorization", "cookie", "cookie2", "set-cookie",
		"traceparent", "tracestate", "baggage",
		"idempotency-key", "x-idempotency-key": // with them, net/http would repeat failed requests by itself
		return true
	}
	return false
}

func notInToken(r rune) bool {
	return notInName(r) && !strings.ContainsRune("!#$%&'*+.^`|~", r)
}

// isHeaderValue reports whether value reaches a receiver unchanged: it has no control characters,
// no white space at its ends, and nothing outside ASCII.
func isHeaderValue(value string) bool {
	return strings.TrimSpace(value) == value &&
		!strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r >= 0x7f })
}
