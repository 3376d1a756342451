package bundle

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"slices"
	"time"

	"github.com/sluice-io/sluice/internal/strictjson"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// JWK is an Ed25519 public key as a JSON Web Key (RFC 7517, RFC 8037).
type JWK struct {
	Type  string `json:"kty"` // OKP
	Curve string `json:"crv"` // Ed25519
	X     string `json:"x"`   // base64url without padding
	KeyID string `json:"kid,omitempty"`
	Alg   string `json:"alg,omitempty"` // Ed25519; EdDSA is read, too
	Use   string `json:"use,omitempty"` // sig
}

// NewJWK returns the JWK of a public key, with its thumbprint as key id.
func NewJWK(key ed25519.PublicKey) JWK {
	k := JWK{Type: "OKP", Curve: "Ed25519", X: base64.RawURLEncoding.EncodeToString(key), Alg: Alg, Use: "sig"}
	k.KeyID = k.Thumbprint()
	return k
}

// KeyID returns the id of a public key: the thumbprint of its JWK.
func KeyID(key ed25519.PublicKey) string { return NewJWK(key).KeyID }

// ParseJWK parses a JWK. Code InvalidRequest unless it is an Ed25519 public key for signatures, and
// its key id, if it has one, is its thumbprint.
func ParseJWK(text []byte) (JWK, error) {
	var k JWK
	if err := strictjson.Check(text); err != nil {
		return JWK{}, err //nolint:wrapcheck // names the cause
	}
	if err := strictjson.Decode(text, &k); err != nil {
		return JWK{}, err //nolint:wrapcheck // names the field
	}
	key, err := k.Key()
	if err != nil {
		return JWK{}, err
	}
	switch {
	case k.Alg != "" && k.Alg != Alg && k.Alg != "EdDSA", k.Use != "" && k.Use != "sig":
		return JWK{}, sluice.Errorf(sluice.InvalidRequest, "the JWK is not for Ed25519 signatures; use alg Ed25519 and use sig").With("field", "alg")
	case k.KeyID != "" && k.KeyID != k.Thumbprint():
		return JWK{}, sluice.Errorf(sluice.InvalidRequest, "kid %.100q is not the thumbprint of the key (RFC 7638), %s", k.KeyID, k.Thumbprint()).With("field", "kid")
	}
	return NewJWK(key), nil
}

// Key returns the public key. Code InvalidRequest if it is not an Ed25519 key.
func (k JWK) Key() (ed25519.PublicKey, error) {
	x, err := base64.RawURLEncoding.Strict().DecodeString(k.X)
	if k.Type != "OKP" || k.Curve != "Ed25519" || err != nil || len(x) != ed25519.PublicKeySize {
		return nil, sluice.Errorf(sluice.InvalidRequest, "the JWK is not an Ed25519 public key; use kty OKP, crv Ed25519 and x of 32 bytes").With("field", "x")
	}
	return x, nil
}

// publicOf returns the public key of a private one. Code Unprocessable if there is none.
func publicOf(key ed25519.PrivateKey) (ed25519.PublicKey, error) {
	if len(key) != ed25519.PrivateKeySize { // Public panics
		return nil, invalid("there is no key to sign with")
	}
	return ed25519.PublicKey(key[ed25519.PrivateKeySize-ed25519.PublicKeySize:]), nil
}

// Thumbprint returns the thumbprint of the key by RFC 7638 with SHA-256.
func (k JWK) Thumbprint() string {
	text := append([]byte(nil), `{"crv":`...)
	text = append(appendString(text, k.Curve), `,"kty":`...)
	text = append(appendString(text, k.Type), `,"x":`...)
	sum := sha256.Sum256(append(appendString(text, k.X), '}'))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// TrustedKey is a key that an importer trusts to speak for one source.
type TrustedKey struct {
	KeyID     string    `json:"kid"`
	JWK       JWK       `json:"jwk"`
	Source    string    `json:"source"` // Header.SourceID, or Receipt.Importer of the key of an importer
	AddedAt   time.Time `json:"added_at"`
	RevokedAt time.Time `json:"revoked_at,omitzero"` // from then on, all its signatures are refused, earlier ones too
}

// Trust holds the keys that an importer trusts. A source has several while it rotates its key. A
// key is trusted for one source only: another source of the same key needs an element of its own.
// The methods never change their receiver. Lookups are O(n); an importer has few keys.
type Trust []TrustedKey

// Add returns the keys with one more, or unchanged if they have it. Code Conflict if the key was
// revoked for that source. Code InvalidRequest for a key or a source in a wrong form.
func (t Trust) Add(k JWK, source string, at time.Time) (Trust, error) {
	key, err := k.Key()
	if err != nil {
		return nil, err
	}
	if !isPlain(source, 1) {
		return nil, sluice.Errorf(sluice.InvalidRequest, "source: use 1 to %d bytes without control characters", maxName).With("field", "source")
	}
	k = NewJWK(key)
	if i := t.index(k.KeyID, source); i < 0 {
		return append(slices.Clone(t), TrustedKey{KeyID: k.KeyID, JWK: k, Source: source, AddedAt: at}), nil
	} else if !t[i].RevokedAt.IsZero() {
		return nil, sluice.Errorf(sluice.Conflict, "key %s was revoked for %s at %s; a revoked key stays revoked", k.KeyID, source, t[i].RevokedAt.UTC().Format(time.RFC3339))
	}
	return t, nil
}

// Revoke returns the keys with one of them revoked for all sources. Code NotFound if they do not
// have it. Repeating it keeps the first time. A revoked key stays in the list, so that it cannot be
// added again.
func (t Trust) Revoke(kid string, at time.Time) (Trust, error) {
	t, found := slices.Clone(t), false
	for i := range t {
		if t[i].KeyID != kid {
			continue
		}
		found = true
		if t[i].RevokedAt.IsZero() {
			t[i].RevokedAt = at
		}
	}
	if !found {
		return nil, sluice.Errorf(sluice.NotFound, "there is no key %.100q", kid)
	}
	return t, nil
}

func (t Trust) index(kid, source string) int {
	return slices.IndexFunc(t, func(k TrustedKey) bool { return k.KeyID == kid && k.Source == source })
}

// Find returns the key with an id that speaks for a source. Code UnknownKey, with reason unknown or
// revoked in the details.
func (t Trust) Find(kid, source string) (ed25519.PublicKey, error) {
	i := t.index(kid, source)
	if i < 0 {
		return nil, sluice.Errorf(sluice.UnknownKey, "key %.100q is not trusted for source %.100q; register it first", kid, source).With("reason", "unknown").With("kid", kid)
	}
	if at := t[i].RevokedAt; !at.IsZero() {
		return nil, sluice.Errorf(sluice.UnknownKey, "key %.100q was revoked at %s", kid, at.UTC().Format(time.RFC3339)).With("reason", "revoked").With("kid", kid)
	}
	key, err := t[i].JWK.Key()
	if err != nil || KeyID(key) != kid {
		return nil, sluice.Errorf(sluice.UnknownKey, "the trusted key %.100q is damaged; register it again", kid).With("reason", "unknown").With("kid", kid)
	}
	return key, nil
}
