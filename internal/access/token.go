package access

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
	tokenPrefix  = "cap_" // so that whoever scans for leaked secrets finds tokens
	tokenVersion = 1
	maxToken     = 4096
	nonceBytes   = 32
)

// Claims is what a token says: all fields but the signature are signed, as canonical JSON (RFC 8785), with Ed25519.
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
	Nonce     string           `json:"nonce"` // 32 bytes in hex
	Signature string           `json:"signature,omitempty"`
}

// Reason says why a token is not accepted, in the details of the error.
type Reason string

// The reasons, in the order in which they are looked for (S0-55).
const (
	Malformed  Reason = "malformed"
	UnknownKey Reason = "unknown_key"
	Forged     Reason = "signature_invalid"
	Expired    Reason = "expired"
	Replayed   Reason = "token_replay" // the grant was renewed: another token counts
	Revoked    Reason = "revoked"
	Elsewhere  Reason = "other_namespace" // a ticket's
)

// refuse returns the error of a token that is not accepted.
func refuse(why Reason, message string) *sluice.Error {
	return sluice.Errorf(sluice.Unauthenticated, "%s", message).With("reason", string(why))
}

// NewNonce returns a nonce.
func NewNonce() (string, error) {
	raw := make([]byte, nonceBytes)
	if _, err := rand.Read(raw); err != nil {
		return "", fmt.Errorf("make a nonce: %w", err)
	}
	return hex.EncodeToString(raw), nil
}

// HashNonce returns what is stored of a nonce.
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

var errNotCanonical = errors.New("it is not written as it would be written again")

// IsToken reports whether a bearer's token means to be a grant's.
func IsToken(token string) bool { return strings.HasPrefix(token, tokenPrefix) }

// Verify returns what a token says if a key of the server signed it, and says so in the one
// way in which Sign writes it. It does not ask whether that still holds.
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
		return Claims{}, refuse(Malformed, "the token is not one of this server's")
	}
	signature, err := decode(c.Signature)
	if err != nil || !ed25519.Verify(public, body, signature) {
		return Claims{}, refuse(Forged, "the token's signature does not fit")
	}
	return c, nil
}

// parse reads a token that is written as Sign writes it.
func parse(token string) (Claims, error) {
	var c Claims
	text, ok := strings.CutPrefix(token, tokenPrefix)
	if !ok || len(text) > maxToken {
		return c, refuse(Malformed, "the token is not one of this server's")
	}
	raw, err := decode(text)
	if err != nil || json.Unmarshal(raw, &c) != nil || c.Version != tokenVersion || c.Signature == "" {
		return c, refuse(Malformed, "the token is not one of this server's")
	}
	if again, err := c.canonical(); err != nil || string(again) != string(raw) {
		return c, refuse(Malformed, "the token is not one of this server's")
	}
	return c, nil
}

// decode reads base64 that is written as it would be written again: the library passes over line ends.
func decode(text string) ([]byte, error) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err == nil && base64.RawURLEncoding.EncodeToString(raw) != text {
		err = errNotCanonical
	}
	return raw, err
}
