package e2e_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"math/big"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// written keeps what is written, from any goroutine.
type written struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *written) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *written) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// needles returns the forms in which a secret could be somewhere: as it is, its bytes, and hex and
// base64 of either.
func needles(secret string) []string {
	all := []string{secret}
	texts := []string{secret}
	if encoded, ok := strings.CutPrefix(secret, sluice.SecretPrefix); ok {
		if key, err := base64.StdEncoding.DecodeString(encoded); err == nil {
			texts = append(texts, string(key))
			all = append(all, encoded, string(key))
		}
	}
	for _, text := range texts {
		all = append(all, hex.EncodeToString([]byte(text)), strings.ToUpper(hex.EncodeToString([]byte(text))),
			base64.RawStdEncoding.EncodeToString([]byte(text)), base64.RawURLEncoding.EncodeToString([]byte(text)),
			strings.Trim(fmt.Sprintf("%d", []byte(text)), "[]"))
	}
	return all
}

// requireNone checks that a text has no secret in any form.
func requireNone(t *testing.T, where, text string, secrets map[string]string) {
	t.Helper()
	for name, secret := range secrets {
		for _, form := range needles(secret) {
			at := strings.Index(text, form)
			require.Negative(t, at, "%s has %s: …%.300q…", where, name, text[max(0, at-100):max(0, min(len(text), at+200))])
		}
	}
}

// clientPair returns a certificate and its key in PEM.
func clientPair(t *testing.T) (certificate, privateKey string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}))
}
