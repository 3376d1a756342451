package authz_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/authz"
	"github.com/sluice-io/sluice/pkg/sluice"
)

func key(seed byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize))
}

func public(id string) (ed25519.PublicKey, bool) {
	k, ok := key(1).Public().(ed25519.PublicKey)
	return k, ok && id == "k1"
}

func signed(tb testing.TB, g *sluice.Grant, nonce string) string {
	tb.Helper()
	token, err := authz.Sign(g, nonce, "k1", key(1))
	require.NoError(tb, err)
	return token
}

func reason(err error) string {
	e, _ := errors.AsType[*sluice.Error](err)
	if e == nil {
		return ""
	}
	text, _ := e.Details["reason"].(string)
	return text
}

func TestToken_StatesItsGrant(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.grant("018f", ann, "path:acme/a/**", "read", "subscribe")
	token := signed(t, &g.Grant, "n")
	require.True(t, authz.IsToken(token))
	c, err := authz.Verify(token, public)
	require.NoError(t, err)
	require.Equal(t, authz.Claims{
		Version: 1, Grant: "018f", KeyID: "k1", Issuer: sluice.Root, Subject: ann, Verbs: g.Verbs, Object: g.Object,
		IssuedAt: g.IssuedAt, Expiry: g.ExpiresAt, Nonce: "n", Signature: c.Signature,
	}, c)
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(token, "cap_"))
	require.NoError(t, err)
	require.Less(t, bytes.Index(raw, []byte(`"expiry"`)), bytes.Index(raw, []byte(`"issued_at"`)), "RFC 8785: names ascend")
}

// S0-55: signature, key, expiry, nonce and revocation, in this order.
func TestToken_ChecksInStatedOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.grant("g", ann, "scope:acme", "read")
	g.Nonce = authz.HashNonce("n")
	w.save(g)
	check := func(token string, now time.Time) string {
		c, err := authz.Verify(token, public)
		if err != nil {
			return reason(err)
		}
		_, _, err = w.Check(&c, now)
		return reason(err)
	}
	token, replaced := signed(t, &g.Grant, "n"), signed(t, &g.Grant, "before")
	require.Empty(t, check(token, w.now))
	require.Equal(t, "malformed", check("cap_"+token, w.now))
	require.Equal(t, "malformed", check("cap_", w.now))
	other, err := authz.Sign(&g.Grant, "n", "k2", key(2))
	require.NoError(t, err)
	require.Equal(t, "unknown_key", check(other, w.now))
	forged, err := authz.Sign(&g.Grant, "n", "k1", key(2))
	require.NoError(t, err)
	require.Equal(t, "signature_invalid", check(forged, w.now.Add(48*time.Hour)))
	require.Equal(t, "expired", check(replaced, w.now.Add(48*time.Hour)))
	require.Equal(t, "token_replay", check(replaced, w.now))
	w.revoke(g)
	require.Equal(t, "token_replay", check(replaced, w.now))
	require.Equal(t, "revoked", check(token, w.now))
	require.Equal(t, "expired", check(token, w.now.Add(48*time.Hour)))
}

func TestToken_HasOneForm(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.grant("g", ann, "scope:acme", "read")
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(signed(t, &g.Grant, "n"), "cap_"))
	require.NoError(t, err)
	again := func(raw []byte) error {
		_, err := authz.Verify("cap_"+base64.RawURLEncoding.EncodeToString(raw), public)
		return err
	}
	require.NoError(t, again(raw))
	require.Error(t, again(append([]byte(" "), raw...)))
	require.Error(t, again(append(raw, '\n')))
	require.Error(t, again(bytes.Replace(raw, []byte(`"read"`), []byte(`"admin"`), 1)), "what it says is signed")
	require.Error(t, again(bytes.Replace(raw, []byte(`{`), []byte(`{"more":1,`), 1)))
	var fields map[string]any
	require.NoError(t, json.Unmarshal(raw, &fields))
	delete(fields, "signature")
	bare, err := json.Marshal(fields)
	require.NoError(t, err)
	require.Error(t, again(bare))
	require.Error(t, again(bytes.Replace(raw, []byte(`"signature":"`), []byte(`"signature":"\r`), 1)), "base64 with a line end in it")
	_, err = authz.Verify("cap_"+strings.Repeat("A", 1<<20), public)
	require.Equal(t, "malformed", reason(err))
}

// FuzzToken looks for a text that is taken for a token and was not signed.
func FuzzToken(f *testing.F) {
	w := newWorld(f)
	g := w.grant("g", ann, "scope:acme", "read")
	token := signed(f, &g.Grant, "n")
	f.Add(token)
	f.Add("cap_e30")
	f.Add(token[:len(token)-1])
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(token, "cap_"))
	require.NoError(f, err)
	f.Add(string(raw))
	f.Fuzz(func(t *testing.T, text string) {
		for _, text := range []string{text, "cap_" + base64.RawURLEncoding.EncodeToString([]byte(text))} {
			c, err := authz.Verify(text, public)
			if err == nil && text != token {
				t.Fatalf("taken: %q says %+v", text, c)
			}
			if err != nil && sluice.CodeOf(err) != sluice.Unauthenticated {
				t.Fatalf("%q: %v", text, err)
			}
		}
	})
}
