package endpoint

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

const noResponse = "no valid HTTP response"

// failure describes briefly why there is no response. It does not use the texts of network errors,
// which contain addresses of the server and terms of Go. parent is the context of the caller: if it
// is done, the attempt was interrupted, also if the error looks like a timeout. The order of the
// cases matters, because a blocked address or a DNS error is a network error, too.
func failure(parent context.Context, err error, timeout time.Duration) string {
	if parent.Err() != nil {
		return "interrupted"
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "timeout after " + timeout.String()
	}
	for _, say := range []func(error) string{blockedFailure, nameFailure, tlsFailure, networkFailure} {
		if text := say(err); text != "" {
			return text
		}
	}
	return noResponse
}

func blockedFailure(err error) string {
	if b, ok := errors.AsType[*blockedError](err); ok {
		return b.Error()
	}
	return ""
}

func nameFailure(err error) string {
	dns, ok := errors.AsType[*net.DNSError](err)
	switch {
	case !ok:
		return ""
	case dns.IsNotFound:
		return "host " + clip(dns.Name, 253) + " not found"
	default:
		return "DNS lookup of " + clip(dns.Name, 253) + " failed"
	}
}

func tlsFailure(err error) string {
	if certificate, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return "certificate rejected: " + clip(strings.TrimPrefix(certificate.Err.Error(), "x509: "), 256)
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok || strings.Contains(err.Error(), "HTTP response to HTTPS client") {
		return "the endpoint does not speak TLS"
	}
	if _, ok := errors.AsType[tls.AlertError](err); ok || strings.HasPrefix(err.Error(), "remote error: tls: ") {
		return "TLS handshake refused by the endpoint"
	}
	return ""
}

func networkFailure(err error) string {
	timeout, isNet := errors.AsType[net.Error](err)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "network unreachable"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "connection reset"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed),
		strings.Contains(err.Error(), "server closed idle connection"):
		return "connection closed before the response was complete"
	case isNet && timeout.Timeout():
		return "no connection within " + setUp.String()
	}
	return ""
}

// classOf returns the class of a failure without a response. After FailConnection, FailTimeout and
// FailOther the endpoint may have got the request.
func classOf(parent context.Context, err error) sluice.FailureClass {
	_, blocked := errors.AsType[*blockedError](err)
	timeout, isNet := errors.AsType[net.Error](err)
	switch {
	case parent.Err() != nil:
		return sluice.FailOther // interrupted
	case errors.Is(err, context.DeadlineExceeded):
		return sluice.FailTimeout
	case blocked:
		return sluice.FailUnsent
	case nameFailure(err) != "":
		return sluice.FailDNS
	case tlsFailure(err) != "":
		return sluice.FailTLS
	case errors.Is(err, syscall.ECONNREFUSED):
		return sluice.FailRefused
	case isNet && timeout.Timeout():
		return sluice.FailTimeout
	}
	return sluice.FailConnection
}
