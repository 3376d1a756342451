package natstest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Authority is a certificate authority that only explicitly configured parties trust. Its
// certificates are valid for an hour.
type Authority struct {
	File string // its own certificate, in PEM

	dir  string
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

// NewAuthority returns a new authority.
func NewAuthority(tb testing.TB) *Authority {
	tb.Helper()
	a := &Authority{dir: tb.TempDir()}
	template := certificate("authority")
	template.IsCA, template.KeyUsage = true, x509.KeyUsageCertSign
	a.key = newKey(tb)
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	require.NoError(tb, err)
	a.cert, err = x509.ParseCertificate(der)
	require.NoError(tb, err)
	a.File = a.write(tb, "authority.pem", "CERTIFICATE", der)
	return a
}

// Issue returns the files of a certificate for the loopback address and of its key. The files have
// the name, and replace earlier ones of it.
func (a *Authority) Issue(tb testing.TB, name string) (cert, key string) {
	tb.Helper()
	template := certificate(name)
	template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	private := newKey(tb)
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, private.Public(), a.key)
	require.NoError(tb, err)
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(tb, err)
	return a.write(tb, name+".pem", "CERTIFICATE", der), a.write(tb, name+"-key.pem", "PRIVATE KEY", secret)
}

// TLS returns a server configuration with a certificate of this authority. Need is how it treats
// client certificates; it trusts those of the authority.
func (a *Authority) TLS(tb testing.TB, need tls.ClientAuthType) *tls.Config {
	tb.Helper()
	pair, err := tls.LoadX509KeyPair(a.Issue(tb, "server"))
	require.NoError(tb, err)
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: pool, ClientAuth: need, MinVersion: tls.VersionTLS12}
}

func (a *Authority) write(tb testing.TB, name, kind string, der []byte) string {
	tb.Helper()
	file := filepath.Join(a.dir, name)
	require.NoError(tb, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
	return file
}

func certificate(name string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), BasicConstraintsValid: true,
	}
}

func newKey(tb testing.TB) *ecdsa.PrivateKey {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(tb, err)
	return key
}
