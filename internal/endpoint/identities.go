package endpoint

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// mostIdentities limits the transports that are kept. Beyond it, evicted ones cost new handshakes.
const mostIdentities = 1024

// identities holds the transports of endpoints with a client certificate, or certificate
// authorities, of their own. Each transport has its own connections, so that no connection is used
// with another identity. The key of the cache is a digest of certificate, private key and
// authorities, so a changed subscription gets another transport, and equal ones share it. It is
// safe for concurrent use.
type identities struct {
	guard *guard
	kept  *lru.Cache[[sha256.Size]byte, *http.Transport]
}

func newIdentities(g *guard) *identities {
	kept, err := lru.NewWithEvict(mostIdentities, func(_ [sha256.Size]byte, t *http.Transport) { t.CloseIdleConnections() })
	if err != nil {
		panic(err) // only for a size that is not positive
	}
	return &identities{guard: g, kept: kept}
}

// of returns the transport for a subscription's requests; nil: the common one. Code InvalidRequest
// if the subscription's certificate or key is invalid.
func (i *identities) of(sub *sluice.Subscription) (*http.Transport, error) {
	settings := sub.Endpoint.TLS
	if settings == nil {
		return nil, nil //nolint:nilnil // most subscriptions have no TLS settings
	}
	hash := sha256.New()
	for _, part := range []string{settings.Certificate, "\x00", sub.Credentials.PrivateKey, "\x00", settings.CA} {
		_, _ = hash.Write([]byte(part)) // Write of a hash never fails
	}
	key := [sha256.Size]byte(hash.Sum(nil))
	if t, ok := i.kept.Get(key); ok {
		return t, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if settings.CA != "" {
		config.RootCAs = x509.NewCertPool()
		config.RootCAs.AppendCertsFromPEM([]byte(settings.CA))
	}
	if settings.Certificate != "" {
		pair, err := settings.KeyPair(sub.Credentials.PrivateKey, time.Time{}) // the zero time accepts an expired certificate: the endpoint decides about it
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	t := newTransport(i.guard)
	t.TLSClientConfig = config
	// Another attempt may have added one meanwhile; t has no connection yet and is only garbage.
	if was, ok, _ := i.kept.PeekOrAdd(key, t); ok {
		return was, nil
	}
	return t, nil
}

// expired adds to the description of a failure that the client certificate has expired, if it has.
func expired(sub *sluice.Subscription, why string, now time.Time) string {
	if t := sub.Endpoint.TLS; t != nil && t.NotAfter != nil && now.After(*t.NotAfter) {
		return why + "; the client certificate expired at " + t.NotAfter.Format(time.RFC3339)
	}
	return why
}
