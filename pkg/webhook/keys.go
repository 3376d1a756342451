package webhook

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
)

type keySet struct {
	Keys []jwk `json:"keys"`
}

type jwk struct {
	Type  string `json:"kty"`
	Curve string `json:"crv"`
	ID    string `json:"kid,omitempty"`
	Use   string `json:"use,omitempty"`
	Alg   string `json:"alg,omitempty"`
	X     string `json:"x"`
}

// ParseKeys returns the Ed25519 public keys of a JWKS document (RFC 7517, RFC 8037), such as
// /.well-known/jwks.json of a server. Keys of other kinds are skipped; it returns an error if no
// key is left.
func ParseKeys(jwks []byte) ([]ed25519.PublicKey, error) {
	var set keySet
	if err := json.Unmarshal(jwks, &set); err != nil {
		return nil, fmt.Errorf("webhook: not a JWKS document: %w", err)
	}
	var keys []ed25519.PublicKey
	for _, k := range set.Keys {
		x, err := base64.RawURLEncoding.DecodeString(k.X)
		if k.Type == "OKP" && k.Curve == "Ed25519" && err == nil && len(x) == ed25519.PublicKeySize {
			keys = append(keys, x)
		}
	}
	if len(keys) == 0 {
		return nil, errors.New("webhook: the JWKS document has no Ed25519 key")
	}
	return keys, nil
}

// PublicKey is an Ed25519 key with its key ID.
type PublicKey struct {
	ID  string
	Key ed25519.PublicKey
}

// FormatKeys returns the JWKS document that publishes the keys.
func FormatKeys(keys ...PublicKey) ([]byte, error) {
	set := keySet{Keys: make([]jwk, len(keys))}
	for i, k := range keys {
		set.Keys[i] = jwk{
			Type: "OKP", Curve: "Ed25519", ID: k.ID, Use: "sig", Alg: "EdDSA",
			X: base64.RawURLEncoding.EncodeToString(k.Key),
		}
	}
	doc, err := json.Marshal(set)
	if err != nil {
		return nil, fmt.Errorf("webhook: JWKS document: %w", err)
	}
	return doc, nil
}
