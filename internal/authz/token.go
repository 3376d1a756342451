package authz

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gowebpki/jcs"

	"github.com/sluice-io/sluice/pkg/sluice"
)

const (
	tokenPrefix  = "cap_" // recognizable by secret scanners
	tokenVersion = 1
	maxToken     = 4096
	nonceBytes   = 32
)

// Claims is the content of a token. The signature covers all other fields, as canonical JSON (RFC
// 8785), with Ed25519.
type Claims struct {
	Version   int              `json:"token_version"`
	Grant     string           `json:"token_id"`
	KeyID     string           `json:"key_id"`
	Issuer    sluice.Principal `json:"issuer"`
	Subject   sluice.Principal `json:"subject"`
	Verbs     []sluice.Verb    `json:"verbs"`
	Object    sluice.Object    `json:"object"`
	IssuedAt  time.Time        `json:"issued_at"`
	Expiry    time.Time        `json:"expiry"`
	Nonce     string           `json:"nonce"` // 32 bytes, hex-encoded
	Signature string           `json:"signature,omitempty"`
}

// Reason is the reason why a token is refused, in the details of the error.
type Reason string

// The reasons, in the order of the checks (S0-55).
const (
	Malformed  Reason = "malformed"
	UnknownKey Reason = "unknown_key"
	Forged     Reason = "signature_invalid"
	Expired    Reason = "expired"
	Replayed   Reason = "token_replay" // the grant was renewed; use its newer token
	Revoked    Reason = "revoked"
	Elsewhere  Reason = "other_namespace" // only for tickets
)

// refuse returns the error for a refused token.
func refuse(why Reason, message string) *sluice.Error {
	return sluice.Errorf(sluice.Unauthenticated, "%s", message).With("reason", string(why))
}

// NewNonce returns a random nonce.
func NewNonce() (string, error) {
	raw := make([]byte, nonceBytes)
	if _, err := rand.Read(raw); err != nil {
		return "", fmt.Errorf("generate a nonce: %w", err)
	}
	return hex.EncodeToString(raw), nil
}

// HashNonce returns the stored hash of a nonce.
func HashNonce(nonce string) string {
	sum := sha256.Sum256([]byte(nonce))
	return hex.EncodeToString(sum[:])
}

// Sign returns the token of a grant.
func Sign(g *sluice.Grant, nonce, keyID string, key ed25519.PrivateKey) (string, error) {
	c := Claims{
		Version: tokenVersion, Grant: g.ID, KeyID: keyID, Issuer: g.IssuedBy, Subject: g.Principal, Verbs: g.Verbs,
		Object: g.Object, IssuedAt: g.IssuedAt, Expiry: g.ExpiresAt, Nonce: nonce,
	}
	body, err := c.canonical()
	if err != nil {
		return "", err
	}
	c.Signature = base64.RawURLEncoding.EncodeToString(ed25519.Sign(key, body))
	text, err := c.canonical()
	if err != nil {
		return "", err
	}
	return tokenPrefix + base64.RawURLEncoding.EncodeToString(text), nil
}

// canonical returns the claims as canonical JSON.
func (c *Claims) canonical() ([]byte, error) {
	text, err := json.Marshal(c)
	if err == nil {
		text, err = jcs.Transform(text)
	}
	if err != nil {
		return nil, fmt.Errorf("token: %w", err)
	}
	return text, nil
}

var errNotCanonical = errors.New("it is not in canonical form")

// IsToken reports whether a bearer token has the form of a grant's token.
func IsToken(token string) bool { return strings.HasPrefix(token, tokenPrefix) }

// Verify returns the content of a token that a key of the server signed, in exactly the form that
// Sign produces. It does not check whether the grant is still valid.
func Verify(token string, key func(id string) (ed25519.PublicKey, bool)) (Claims, error) {
	c, err := parse(token)
	if err != nil {
		return Claims{}, err
	}
	public, ok := key(c.KeyID)
	if !ok {
		return Claims{}, refuse(UnknownKey, "the token was not signed by this server")
	}
	unsigned := c
	unsigned.Signature = ""
	body, err := unsigned.canonical()
	if err != nil {
		return Claims{}, refuse(Malformed, "the token was not issued by this server")
	}
	signature, err := decode(c.Signature)
	if err != nil || !ed25519.Verify(public, body, signature) {
		return Claims{}, refuse(Forged, "the token's signature is invalid")
	}
	return c, nil
}

// parse parses a token in the form that Sign produces.
func parse(token string) (Claims, error) {
	var c Claims
	text, ok := strings.CutPrefix(token, tokenPrefix)
	if !ok || len(text) > maxToken {
		return c, refuse(Malformed, "the token was not issued by this server")
	}
	raw, err := decode(text)
	if err != nil || json.Unmarshal(raw, &c) != nil || c.Version != tokenVersion || c.Signature == "" {
		return c, refuse(Malformed, "the token was not issued by this server")
	}
	if again, err := c.canonical(); err != nil || string(again) != string(raw) {
		return c, refuse(Malformed, "the token was not issued by this server")
	}
	return c, nil
}

// decode decodes canonical base64. It compares the re-encoded text, because the library ignores
// line breaks.
func decode(text string) ([]byte, error) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err == nil && base64.RawURLEncoding.EncodeToString(raw) != text {
		err = errNotCanonical
	}
	return raw, err
}
