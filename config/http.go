package config

import (
	"crypto/tls"
	"errors"
	"net/netip"
	"slices"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// HTTPTLS configures the certificate of the API. Its files are reloaded when they change.
type HTTPTLS struct {
	// Cert is a PEM file of the API's certificate and any intermediate certificates; empty: the API
	// uses plain HTTP.
	Cert string `json:"cert" env:"CERT"`
	// Key is a PEM file of Cert's private key; empty: none.
	Key string `json:"key" env:"KEY"`
	// ClientCA is a PEM file of authorities that must have signed every client's certificate, which
	// is required in addition to the token; empty: clients need no certificate.
	ClientCA string `json:"client_ca" env:"CLIENT_CA"`
	// MinVersion is the minimum TLS version: "1.2" or "1.3"; "1.2".
	MinVersion string `json:"min_version" env:"MIN_VERSION"`
}

// AuthFailures limits the requests with an invalid token from one address (for IPv6, a /64).
// Requests with a valid token are never limited.
type AuthFailures struct {
	// Burst is the number of failures that get a detailed response before 429; 0: unlimited; 60.
	Burst int `json:"burst" env:"BURST"`
	// Every is the interval after which one more failure is allowed; 1s.
	Every sluice.Duration `json:"every" env:"EVERY"`
}

// Timeouts limit the duration of the phases of a connection to the API.
type Timeouts struct {
	// Header is for a request's header, and for the TLS handshake; 10s.
	Header sluice.Duration `json:"header" env:"HEADER"`
	// Request is for header and body; 1m.
	Request sluice.Duration `json:"request" env:"REQUEST"`
	// Answer is from the end of the header to the end of the response; a request may wait 30s for
	// events; 2m.
	Answer sluice.Duration `json:"answer" env:"ANSWER"`
	// Idle is the time between two requests; 2m.
	Idle sluice.Duration `json:"idle" env:"IDLE"`
}

func defaultHTTP() HTTP {
	const minute = sluice.Duration(time.Minute)
	return HTTP{
		Listen: "127.0.0.1:8080", MaxBody: 8 << 20, MaxConnections: 4096, TrustedProxies: []string{}, Metrics: "loopback",
		TLS:          HTTPTLS{MinVersion: "1.2"},
		AuthFailures: AuthFailures{Burst: 60, Every: second},
		Timeouts:     Timeouts{Header: 10 * second, Request: minute, Answer: 2 * minute, Idle: 2 * minute},
	}
}

// On reports whether the API speaks TLS.
func (t HTTPTLS) On() bool { return t.Cert != "" }

// Oldest returns MinVersion as a constant of package tls, 0 for an unknown version.
func (t HTTPTLS) Oldest() uint16 {
	return map[string]uint16{"1.2": tls.VersionTLS12, "1.3": tls.VersionTLS13}[t.MinVersion]
}

func (h HTTP) check() error {
	errs := []error{
		checkListen("http.listen", h.Listen),
		checkURL("http.public_url", h.PublicURL),
		when(h.MaxBody <= 0, "http.max_body %d: write a number of bytes above 0", h.MaxBody),
		when(h.MaxConnections <= 0, "http.max_connections %d: write a number above 0", h.MaxConnections),
		when(!slices.Contains([]string{"loopback", "open", "token"}, h.Metrics), "http.metrics %q: write loopback, open or token", h.Metrics),
		when((h.TLS.Cert == "") != (h.TLS.Key == ""), "http.tls: set cert and key together"),
		when(h.TLS.ClientCA != "" && !h.TLS.On(), "http.tls.client_ca: set http.tls.cert and key, too"),
		when(h.TLS.Oldest() == 0, "http.tls.min_version %q: write 1.2 or 1.3, in quotes", h.TLS.MinVersion),
		when(h.AuthFailures.Burst < 0, "http.auth_failures.burst %d: write a number, or 0 for unlimited", h.AuthFailures.Burst),
		when(h.AuthFailures.Every <= 0, "http.auth_failures.every %s: write a duration such as 6s", h.AuthFailures.Every),
		h.Timeouts.check(),
	}
	for _, cidr := range h.TrustedProxies {
		if _, err := netip.ParsePrefix(cidr); err != nil {
			errs = append(errs, invalid("http.trusted_proxies %q: write a network such as 10.1.0.0/16 or fd00::/8", cidr))
		}
	}
	return errors.Join(errs...)
}

func (t Timeouts) check() error {
	return errors.Join(
		when(t.Header <= 0, "http.timeouts.header %s: write a duration such as 10s", t.Header),
		when(t.Request < t.Header, "http.timeouts.request %s: write at least http.timeouts.header", t.Request),
		when(t.Answer <= 0, "http.timeouts.answer %s: write a duration such as 2m", t.Answer),
		when(t.Idle <= 0, "http.timeouts.idle %s: write a duration such as 2m", t.Idle),
	)
}
