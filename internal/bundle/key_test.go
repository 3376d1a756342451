package bundle_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/bundle"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// The example key of RFC 8037, appendix A, and its thumbprint.
const (
	exampleX     = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"
	exampleThumb = "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"
)

func TestJWK_ThumbprintIsThatOfTheStandard(t *testing.T) {
	t.Parallel()
	k, err := bundle.ParseJWK([]byte(`{"kty":"OKP","crv":"Ed25519","x":"` + exampleX + `"}`))
	require.NoError(t, err)
	require.Equal(t, exampleThumb, k.Thumbprint())
	require.Equal(t, bundle.JWK{Type: "OKP", Curve: "Ed25519", X: exampleX, KeyID: exampleThumb, Alg: "Ed25519", Use: "sig"}, k)
	text, err := json.Marshal(k)
	require.NoError(t, err)
	again, err := bundle.ParseJWK(text)
	require.NoError(t, err)
	require.Equal(t, k, again)
	key, err := again.Key()
	require.NoError(t, err)
	require.Equal(t, exampleThumb, bundle.KeyID(key))
	_, err = bundle.ParseJWK([]byte(`{"kty":"OKP","crv":"Ed25519","alg":"EdDSA","use":"sig","x":"` + exampleX + `"}`))
	require.NoError(t, err)
}

func TestJWK_RefusesOtherKeys(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"another type":        `{"kty":"EC","crv":"Ed25519","x":"` + exampleX + `"}`,
		"another curve":       `{"kty":"OKP","crv":"X25519","x":"` + exampleX + `"}`,
		"a short key":         `{"kty":"OKP","crv":"Ed25519","x":"` + exampleX[:40] + `"}`,
		"padding":             `{"kty":"OKP","crv":"Ed25519","x":"` + exampleX + `="}`,
		"bits behind the key": `{"kty":"OKP","crv":"Ed25519","x":"` + exampleX[:42] + `p"}`,
		"no key":              `{"kty":"OKP","crv":"Ed25519"}`,
		"another algorithm":   `{"kty":"OKP","crv":"Ed25519","alg":"none","x":"` + exampleX + `"}`,
		"another use":         `{"kty":"OKP","crv":"Ed25519","use":"enc","x":"` + exampleX + `"}`,
		"another id":          `{"kty":"OKP","crv":"Ed25519","kid":"mine","x":"` + exampleX + `"}`,
		"a private key":       `{"kty":"OKP","crv":"Ed25519","d":"` + exampleX + `","x":"` + exampleX + `"}`,
		"a member twice":      `{"kty":"OKP","crv":"Ed25519","x":"","x":"` + exampleX + `"}`,
		"another case":        `{"kty":"OKP","crv":"Ed25519","X":"` + exampleX + `"}`,
		"no JSON":             `{`,
	} {
		_, err := bundle.ParseJWK([]byte(text))
		require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(err), name)
	}
}

// A source rotates its key: both are trusted until the old one is revoked, for good.
func TestTrust_KeysOverlapUntilRevoked(t *testing.T) {
	t.Parallel()
	trust := trusting(t, 1, 2)
	for _, n := range []byte{1, 2} {
		key, err := trust.Find(bundle.KeyID(publicOf(n)), source)
		require.NoError(t, err)
		require.Equal(t, publicOf(n), key)
		text, _ := write(t, header(0, 0), sluice.DepthCatalog, nil, keyOf(n))
		_, err = read(t, text).Verify(t.Context(), trust)
		require.NoError(t, err)
	}
	old := bundle.KeyID(publicOf(1))
	at := exported.Add(time.Hour)
	after, err := trust.Revoke(old, at)
	require.NoError(t, err)
	_, err = after.Find(old, source)
	var refused *sluice.Error
	require.ErrorAs(t, err, &refused)
	require.Equal(t, sluice.UnknownKey, refused.Code)
	require.Equal(t, map[string]any{"reason": "revoked", "kid": old}, refused.Details)
	_, err = trust.Find(old, source)
	require.NoError(t, err, "the value before is unchanged")
	_, err = after.Find(bundle.KeyID(publicOf(2)), source)
	require.NoError(t, err)

	again, err := after.Revoke(old, at.Add(time.Hour))
	require.NoError(t, err)
	require.Equal(t, after, again, "the first revocation counts")
	_, err = after.Add(bundle.NewJWK(publicOf(1)), source, at)
	require.Equal(t, sluice.Conflict, sluice.CodeOf(err))
	same, err := after.Add(bundle.NewJWK(publicOf(2)), source, at)
	require.NoError(t, err)
	require.Equal(t, after, same)
	_, err = trust.Revoke("none", at)
	require.Equal(t, sluice.NotFound, sluice.CodeOf(err))
}

func TestTrust_KeySpeaksForItsSource(t *testing.T) {
	t.Parallel()
	k := bundle.NewJWK(publicOf(1))
	trust, err := trusting(t, 1).Add(k, "b", exported)
	require.NoError(t, err)
	require.Len(t, trust, 2)
	_, err = trust.Find(k.KeyID, "b")
	require.NoError(t, err)
	_, err = trust.Find(k.KeyID, "c")
	require.Equal(t, sluice.UnknownKey, sluice.CodeOf(err))
	trust, err = trust.Revoke(k.KeyID, exported)
	require.NoError(t, err)
	for _, of := range []string{source, "b"} {
		_, err = trust.Find(k.KeyID, of)
		require.Equal(t, sluice.UnknownKey, sluice.CodeOf(err), of)
	}
	for _, of := range []string{"", "a\x00b", "a\nb", strings.Repeat("x", 513)} {
		_, err := trust.Add(k, of, exported)
		require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(err), of)
	}
	bare, err := bundle.Trust{}.Add(bundle.JWK{Type: k.Type, Curve: k.Curve, X: k.X}, "b", exported)
	require.NoError(t, err)
	require.Equal(t, k, bare[0].JWK)
	_, err = trust.Add(bundle.JWK{}, "b", exported)
	require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(err))
	text, err := json.Marshal(trust[:1])
	require.NoError(t, err)
	require.JSONEq(t, fmt.Sprintf(`[{"kid":%q,"jwk":{"kty":"OKP","crv":"Ed25519","x":%q,"kid":%q,"alg":"Ed25519","use":"sig"},`+
		`"source":%q,"added_at":"2026-02-19T12:00:00Z","revoked_at":"2026-02-19T12:00:00Z"}]`, k.KeyID, k.X, k.KeyID, source), string(text))
}
