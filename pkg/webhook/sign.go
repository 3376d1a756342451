package webhook

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gowebpki/jcs"
)

// Scheme is a signature scheme.
type Scheme string

// The schemes; a subscription uses exactly one (register C04).
const (
	Standard Scheme = "standard" // Standard Webhooks, HMAC-SHA256: webhook-signature: v1,<base64>
	Ed25519  Scheme = "ed25519"  // Standard Webhooks, Ed25519: webhook-signature: v1a,<base64>
	TSHA256  Scheme = "t-sha256" // S1-66: Webhook-Signature: t=<unix>,sha256=<hex>
	Header   Scheme = "header"   // S4-49: sha256=<hex> of the body in a configurable header
	Message  Scheme = "rfc9421"  // HTTP Message Signatures (RFC 9421), Ed25519: Signature-Input, Signature, Content-Digest
)

// The headers. HeaderID and HeaderAttempt are always sent, HeaderTimestamp with Standard and
// Ed25519, HeaderSignature with all schemes except Message, and Header, whose header is DefaultHeader
// unless the subscription names another.
const (
	HeaderID        = "Webhook-Id"
	HeaderTimestamp = "Webhook-Timestamp"
	HeaderSignature = "Webhook-Signature"
	HeaderAttempt   = "Webhook-Attempt"
	DefaultHeader   = "X-Fole-Signature"
)

// SecretPrefix is the prefix of generated secrets, followed by the base64 of the key.
const SecretPrefix = "whsec_"

const (
	prefixV1     = "v1,"
	prefixV1a    = "v1a,"
	prefixT      = "t="
	prefixSHA256 = "sha256="
)

// Key returns the signing key of the scheme Standard: the base64-decoded part after "whsec_". It
// returns an error if the secret is empty or not base64.
func Key(secret string) ([]byte, error) {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, SecretPrefix))
	if err != nil || len(key) == 0 {
		return nil, errors.New("the secret is not whsec_ and base64")
	}
	return key, nil
}

// SignStandard returns "v1,<base64>": HMAC-SHA256 over "<id>.<unix time>.<body>" with Key(secret).
// During a rotation send one per secret, separated by spaces.
func SignStandard(secret, id string, at time.Time, body []byte) (string, error) {
	key, err := Key(secret)
	if err != nil {
		return "", err
	}
	return prefixV1 + base64.StdEncoding.EncodeToString(standardMAC(key, id, unix(at), body)), nil
}

// SignEd25519 returns "v1a,<base64>": the Ed25519 signature of "<id>.<unix time>.<body>".
func SignEd25519(key ed25519.PrivateKey, id string, at time.Time, body []byte) string {
	return prefixV1a + base64.StdEncoding.EncodeToString(ed25519.Sign(key, signedContent(id, unix(at), body)))
}

// SignT returns "t=<unix time>,sha256=<hex>": HMAC-SHA256 over "<unix time>.<body>", keyed with the
// bytes of the secret string (S1-66, S1-68).
func SignT(secret string, at time.Time, body []byte) string {
	t := unix(at)
	return prefixT + t + "," + prefixSHA256 + hex.EncodeToString(tMAC(secret, t, body))
}

// SignHeader returns "sha256=<hex>": HMAC-SHA256 over the body, keyed with the bytes of the secret
// string (S4-49).
func SignHeader(secret string, body []byte) string {
	return prefixSHA256 + hex.EncodeToString(bodyMAC(secret, body))
}

// SignAttempt returns the member "signature" of the envelope Attempt: the hex HMAC-SHA256, keyed
// with the bytes of the secret string, over the RFC 8785 canonical form of unsigned, the JSON
// object {event, attempt, timestamp} (S4-57, register C05). It returns an error if unsigned has no
// canonical form: it is not JSON, repeats a name, or nests too deep.
func SignAttempt(secret string, unsigned []byte) (string, error) {
	canonical, err := jcs.Transform(unsigned)
	if err != nil {
		return "", fmt.Errorf("canonical JSON: %w", err)
	}
	return hex.EncodeToString(bodyMAC(secret, canonical)), nil
}

func unix(at time.Time) string { return strconv.FormatInt(at.Unix(), 10) }

func signedContent(id, timestamp string, body []byte) []byte {
	content := make([]byte, 0, len(id)+len(timestamp)+len(body)+2)
	content = append(content, id...)
	content = append(content, '.')
	content = append(content, timestamp...)
	content = append(content, '.')
	return append(content, body...)
}

func standardMAC(key []byte, id, timestamp string, body []byte) []byte {
	return sum(key, []byte(id+"."+timestamp+"."), body)
}

func tMAC(secret, timestamp string, body []byte) []byte {
	return sum([]byte(secret), []byte(timestamp+"."), body)
}

func bodyMAC(secret string, body []byte) []byte { return sum([]byte(secret), nil, body) }

// sum returns the HMAC-SHA256 of head and body. It does not copy the body, which may be large.
func sum(key, head, body []byte) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write(head)
	mac.Write(body)
	return mac.Sum(nil)
}
