package endpoint_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log/slog"
	serial "math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/endpoint"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// authority signs certificates for tests.
type authority struct {
	tb   testing.TB
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	pem  string
}

func newAuthority(tb testing.TB) *authority {
	tb.Helper()
	a := &authority{tb: tb}
	var err error
	a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(tb, err)
	template := &x509.Certificate{
		SerialNumber: serial.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	require.NoError(tb, err)
	a.cert, err = x509.ParseCertificate(der)
	require.NoError(tb, err)
	a.pem = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	return a
}

// issue returns a certificate with its key, in PEM.
func (a *authority) issue(name string, end time.Time) (certificate, privateKey string) {
	a.tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(a.tb, err)
	template := &x509.Certificate{
		SerialNumber: serial.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: end,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	require.NoError(a.tb, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(a.tb, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}))
}

// strict starts an endpoint that demands a certificate of the authority, and answers with the name in it.
func (a *authority) strict(h2 bool) *httptest.Server {
	a.tb.Helper()
	pair, err := tls.X509KeyPair(pemPair(a.issue("server", time.Now().Add(time.Hour))))
	require.NoError(a.tb, err)
	clients := x509.NewCertPool()
	clients.AddCert(a.cert)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusConflict) // so that the attempt has the response
		_, _ = io.WriteString(w, r.TLS.PeerCertificates[0].Subject.CommonName+" "+r.Proto)
	}))
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	server.EnableHTTP2 = h2
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: clients, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS12}
	server.StartTLS()
	a.tb.Cleanup(server.Close)
	return server
}

func pemPair(certificate, privateKey string) (cert, key []byte) {
	return []byte(certificate), []byte(privateKey)
}

// Issue 18, item 10.
func TestMutualTLS_IdentitiesShareNoConnection(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	for _, proto := range []string{"HTTP/1.1", "HTTP/2.0"} {
		hook := ca.strict(proto == "HTTP/2.0")
		s := sender(t, endpoint.Options{AllowLoopback: true})
		as := func(name string, end time.Time) *sluice.Subscription {
			sub := subscription(hook.URL)
			certificate, key := ca.issue(name, end)
			sub.Endpoint.TLS = (&sluice.EndpointTLS{Certificate: certificate, CA: ca.pem}).Dated()
			sub.Credentials.PrivateKey = key
			return sub
		}
		ann, bob := as("ann", time.Now().Add(time.Hour)), as("bob", time.Now().Add(time.Hour))
		for range 3 {
			require.Equal(t, "ann "+proto, s.Send(t.Context(), ann, event(), 1).Response)
			require.Equal(t, "bob "+proto, s.Send(t.Context(), bob, event(), 1).Response)
		}
		a := s.Send(t.Context(), as("eve", time.Now().Add(-time.Hour)), event(), 1)
		require.Equal(t, sluice.Failed, a.Outcome)
		require.Contains(t, a.Error, "; the client certificate expired at ")

		bare := subscription(hook.URL)
		bare.Endpoint.TLS = &sluice.EndpointTLS{CA: ca.pem}
		a = s.Send(t.Context(), bare, event(), 1)
		require.Equal(t, sluice.Failed, a.Outcome, "without a certificate")
		require.Zero(t, a.Status)
		thief := *ann
		thief.Credentials = bob.Credentials
		require.Equal(t, sluice.Refused, s.Send(t.Context(), &thief, event(), 1).Outcome, "the certificate of another one, without its key")
		stranger := *ann
		stranger.Endpoint.TLS = &sluice.EndpointTLS{Certificate: ann.Endpoint.TLS.Certificate, CA: newAuthority(t).pem}
		require.Contains(t, s.Send(t.Context(), &stranger, event(), 1).Error, "certificate rejected", "only the given authorities are believed")
	}
}
