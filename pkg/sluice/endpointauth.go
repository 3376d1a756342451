package sluice

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"
)

// Limits of the credentials of an endpoint.
const (
	MaxClientID     = 256      // bytes
	MaxClientSecret = 4 << 10  // bytes
	MaxScopes       = 32       // entries
	MaxScope        = 256      // bytes
	MaxCertificates = 16 << 10 // bytes of PEM, of each field
)

// AuthMethod is the method that authenticates requests to an endpoint, in addition to their
// signature.
type AuthMethod string

// AuthOAuth2 sends a bearer token from the client credentials grant (RFC 6749, 4.4).
const AuthOAuth2 AuthMethod = "oauth2"

// EndpointAuth configures the authentication of requests to an endpoint.
type EndpointAuth struct {
	Type     AuthMethod `json:"type"`
	TokenURL string     `json:"token_url"`
	ClientID string     `json:"client_id"`
	// ClientSecret is accepted in requests, and never returned.
	ClientSecret string   `json:"client_secret,omitempty"`
	Scopes       []string `json:"scopes,omitempty"`
	Audience     string   `json:"audience,omitempty"` // parameter audience of the token request
}

// EndpointTLS is the client certificate for requests to an endpoint, and the authorities that must
// have signed the endpoint's certificate.
type EndpointTLS struct {
	Certificate string `json:"certificate,omitempty"` // PEM: the client's certificate, then intermediate ones
	// PrivateKey is in PEM. It is accepted in requests, and never returned.
	PrivateKey string     `json:"private_key,omitempty"`
	CA         string     `json:"ca,omitempty"`        // PEM; replaces the system's authorities
	NotAfter   *time.Time `json:"not_after,omitempty"` // when the client's certificate expires; set by the server
}

// Credentials are the secret parts of an endpoint's auth and tls, which never leave the server.
type Credentials struct {
	ClientSecret string `json:"client_secret,omitempty"`
	PrivateKey   string `json:"private_key,omitempty"`
}

// String returns the names of the credentials that are set.
func (c Credentials) String() string {
	var set []string
	if c.ClientSecret != "" {
		set = append(set, "client_secret")
	}
	if c.PrivateKey != "" {
		set = append(set, "private_key")
	}
	return "credentials [" + strings.Join(set, " ") + "]"
}

// Format writes the credentials without their values, for any verb.
func (c Credentials) Format(f fmt.State, _ rune) { write(f, c.String()) }

// LogValue returns the credentials without their values.
func (c Credentials) LogValue() slog.Value { return slog.StringValue(c.String()) }

func (a *EndpointAuth) check() error {
	if a == nil {
		return nil
	}
	err := cmp.Or(
		oneOf("endpoint.auth.type", a.Type, AuthOAuth2),
		CheckURL("endpoint.auth.token_url", a.TokenURL),
		visible("endpoint.auth.client_id", a.ClientID, MaxClientID),
		text("endpoint.auth.client_secret", a.ClientSecret, MaxClientSecret),
		count("endpoint.auth.scopes", len(a.Scopes), MaxScopes),
		text("endpoint.auth.audience", a.Audience, MaxURL),
	)
	for _, scope := range a.Scopes {
		err = cmp.Or(err, visible("endpoint.auth.scopes", scope, MaxScope))
		if strings.ContainsAny(scope, ` "\`) {
			err = cmp.Or(err, error(Errorf(InvalidRequest, "endpoint.auth.scopes %q: write each scope as an entry of its own", scope).With("field", "endpoint.auth.scopes")))
		}
	}
	return err
}

// visible returns an error unless s is not empty and consists of printable ASCII.
func visible(field, s string, most int) error {
	if s == "" || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) {
		return Errorf(InvalidRequest, "%s: use 1 to %d characters of printable ASCII", field, most).With("field", field)
	}
	return text(field, s, most)
}

func (t *EndpointTLS) check(address string) error {
	if t == nil {
		return nil
	}
	if t.Certificate == "" && t.CA == "" {
		return tlsError("", "endpoint.tls requires a certificate with its private_key, or a ca")
	}
	if u, err := url.Parse(address); err == nil && u.Scheme != "https" {
		return tlsError("", "endpoint.tls requires an https URL")
	}
	if t.PrivateKey != "" && t.Certificate == "" {
		return tlsError("private_key", "endpoint.tls.private_key requires a certificate")
	}
	err := cmp.Or(
		text("endpoint.tls.certificate", t.Certificate, MaxCertificates),
		text("endpoint.tls.private_key", t.PrivateKey, MaxCertificates),
		text("endpoint.tls.ca", t.CA, MaxCertificates),
	)
	if err == nil && t.CA != "" && !x509.NewCertPool().AppendCertsFromPEM([]byte(t.CA)) {
		err = tlsError("ca", "endpoint.tls.ca has no certificate; write one or several in PEM")
	}
	return err
}

func tlsError(field, format string, args ...any) error {
	return Errorf(InvalidRequest, format, args...).With("field", strings.TrimSuffix("endpoint.tls."+field, "."))
}

// Dated returns a copy with NotAfter set; without it if the certificate cannot be read.
func (t *EndpointTLS) Dated() *EndpointTLS {
	if t == nil {
		return nil
	}
	dated := *t
	dated.NotAfter = nil
	for rest := []byte(t.Certificate); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return &dated
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		if leaf, err := x509.ParseCertificate(block.Bytes); err == nil {
			end := leaf.NotAfter.UTC()
			dated.NotAfter = &end
		}
		return &dated
	}
}

// KeyPair returns the client certificate with its private key. Code InvalidRequest if they do not
// match, or the certificate has expired.
func (t *EndpointTLS) KeyPair(privateKey string, now time.Time) (tls.Certificate, error) {
	if privateKey == "" {
		return tls.Certificate{}, tlsError("private_key", "endpoint.tls.private_key is missing; write the key of the certificate in PEM")
	}
	pair, err := tls.X509KeyPair([]byte(t.Certificate), []byte(privateKey))
	if err != nil { // its text may quote a part of the key
		return tls.Certificate{}, tlsError("certificate", "endpoint.tls: certificate and private_key are not a pair in PEM, without a passphrase")
	}
	if now.After(pair.Leaf.NotAfter) {
		return tls.Certificate{}, tlsError("certificate", "endpoint.tls.certificate expired at %s", pair.Leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	return pair, nil
}
