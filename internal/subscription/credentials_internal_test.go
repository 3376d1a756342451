package subscription

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	serial "math/big"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

func withAuth() *sluice.Subscription {
	sub := whole()
	sub.Endpoint.URL = "https://a.example/hook"
	sub.Endpoint.Auth = &sluice.EndpointAuth{Type: sluice.AuthOAuth2, TokenURL: "https://login.example/token", ClientID: "app"}
	sub.Credentials.ClientSecret = "hunter2"
	return sub
}

// Issue 18, item 10. Another admin, who does not know the secret, cannot have it sent elsewhere.
func TestCredentials_PatchKeepsThem(t *testing.T) {
	t.Parallel()
	again := "endpoint.auth.client_secret is required again, because the host of the endpoint, the token_url or the client_id changes"
	for patch, want := range map[string]struct{ secret, fails string }{
		`{"description":"x"}`:                                                        {"hunter2", ""},
		`{"endpoint":{"url":"https://a.example/other"}}`:                             {"hunter2", ""},
		`{"endpoint":{"auth":{"scopes":["x"]}}}`:                                     {"hunter2", ""},
		`{"endpoint":{"url":"https://b.example/hook"}}`:                              {"", again},
		`{"endpoint":{"auth":{"token_url":"https://b.example/token"}}}`:              {"", again},
		`{"endpoint":{"auth":{"client_id":"other"}}}`:                                {"", again},
		`{"endpoint":{"auth":{"client_id":"other","client_secret":"hunter3"}}}`:      {"hunter3", ""},
		`{"endpoint":{"url":"https://b.example/","auth":{"client_secret":"new"}}}`:   {"new", ""},
		`{"endpoint":{"auth":null}}`:                                                 {"", ""},
		`{"endpoint":{"tls":{"certificate":"x"}}}`:                                   {"", "endpoint.tls.private_key is missing; write the key of the certificate in PEM"},
		`{"endpoint":{"tls":{"certificate":"x","private_key":"hunter4"}}}`:           {"", "endpoint.tls: certificate and private_key are not a pair in PEM, without a passphrase"},
		`{"endpoint":{"auth":{"type":"oauth2","client_secret":"hunter2 as given"}}}`: {"hunter2 as given", ""},
	} {
		before, after := withAuth(), withAuth()
		require.NoError(t, applyPatch(after, []byte(patch)), patch)
		err := keepCredentials(before, after, time.Now())
		if want.fails != "" {
			require.EqualError(t, err, want.fails, patch)
			continue
		}
		require.NoError(t, err, patch)
		require.Equal(t, want.secret, after.Credentials.ClientSecret, patch)
		text, err := json.Marshal(after)
		require.NoError(t, err)
		require.NotContains(t, string(text), "hunter")
	}
}

func TestCredentials_RepeatedRequestMayOmitThem(t *testing.T) {
	t.Parallel()
	stored := withAuth()
	require.NoError(t, checkCredentials(stored, time.Now()))
	shown := stored.Endpoint
	require.True(t, sameCredentials(shown, stored))
	auth := *shown.Auth
	auth.ClientSecret, shown.Auth = "hunter2", &auth
	require.True(t, sameCredentials(shown, stored))
	auth.ClientSecret = "hunter3"
	require.False(t, sameCredentials(shown, stored))
	given := withAuth()
	given.Endpoint = shown
	one, err := configHash(given)
	require.NoError(t, err)
	two, err := configHash(stored)
	require.NoError(t, err)
	require.Equal(t, two, one, "the secret is in no hash")
	require.Equal(t, "hunter3", given.Endpoint.Auth.ClientSecret)
	stored.Credentials = sluice.Credentials{}
	require.EqualError(t, checkCredentials(stored, time.Now()), "endpoint.auth.client_secret is missing")
}

// pair returns a certificate with its key in PEM.
func pair(t *testing.T, key *ecdsa.PrivateKey, end time.Time) (certificate, privateKey string) {
	t.Helper()
	template := &x509.Certificate{SerialNumber: serial.NewInt(1), NotBefore: end.Add(-time.Hour), NotAfter: end}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}))
}

func TestCertificate_IsCheckedWithItsKey(t *testing.T) {
	t.Parallel()
	now := time.Now().Truncate(time.Second)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	certificate, secret := pair(t, key, now.Add(time.Hour))
	_, foreign := pair(t, other, now.Add(time.Hour))
	old, _ := pair(t, key, now.Add(-time.Minute))
	renewed, _ := pair(t, key, now.Add(2*time.Hour))

	sub := whole()
	sub.Endpoint.TLS, sub.Credentials.PrivateKey = (&sluice.EndpointTLS{Certificate: certificate}).Dated(), secret
	require.NoError(t, checkCredentials(sub, now))
	require.True(t, now.Add(time.Hour).Equal(*sub.Endpoint.TLS.NotAfter))
	sub.Credentials.PrivateKey = foreign
	require.ErrorContains(t, checkCredentials(sub, now), "are not a pair")
	sub.Credentials.PrivateKey = secret
	patched := func(is string) error {
		after := *sub
		after.Endpoint.TLS = &sluice.EndpointTLS{Certificate: is}
		return keepCredentials(sub, &after, now)
	}
	require.NoError(t, patched(renewed), "the stored key is the key of the renewed certificate, too")
	require.ErrorContains(t, patched(old), "endpoint.tls.certificate expired at ")
	sub.Endpoint.TLS.Certificate = old
	require.NoError(t, patched(old), "one that has expired since does not stand in the way of other changes")
}
