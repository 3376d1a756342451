package webhook

import (
	"cmp"
	"crypto/ed25519"
	"crypto/hmac"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gowebpki/jcs"
)

// Errors of verification and parsing; Status returns the HTTP status for each.
var (
	ErrUnsigned  = errors.New("webhook: the signature headers are missing or malformed")
	ErrSignature = errors.New("webhook: no signature matches")
	ErrTimestamp = errors.New("webhook: the signing time is too far from now")
	ErrTooLarge  = errors.New("webhook: the body is too large")
	ErrMalformed = errors.New("webhook: the body does not have the expected envelope")
	ErrSetup     = errors.New("webhook: the receiver has no usable secret or key")
)

// maxSignatures limits the number of signatures that are verified per request.
const maxSignatures = 16

// Receiver holds the secrets of one subscription, its signature scheme and its envelope. Only
// Secrets (or Keys) is required. It is safe for concurrent use as long as its fields are not
// changed.
type Receiver struct {
	Scheme   Scheme              // default Standard
	Secrets  []string            // a signature by any of them is valid; two during a rotation
	Keys     []ed25519.PublicKey // for the schemes Ed25519 and Message; see ParseKeys
	Header   string              // header name for the scheme Header; default DefaultHeader
	URL      string              // URL of the endpoint, whose host the scheme Message signs; default: the host of the request
	Envelope Envelope            // default: detected from the request; see Parse
	// Tolerance is the maximum difference between the signing time and now; default 5 minutes
	// (S1-67).
	Tolerance time.Duration
	MaxBytes  int64            // maximum size of a body; default 1 MiB
	Now       func() time.Time // default time.Now
}

// Receive reads the request's body, verifies its signature and returns its content. With the
// envelope Attempt it also verifies the signature inside the body, provided that Secrets are set.
// It returns an error of this package, or the error from reading the body.
func (r *Receiver) Receive(req *http.Request) (*Delivery, error) {
	body, err := r.verified(req)
	if err != nil {
		return nil, err
	}
	d, err := Parse(r.Envelope, req.Header, body)
	if err != nil {
		return nil, err
	}
	if d.Envelope == Attempt && len(r.Secrets) > 0 {
		if err := r.VerifyAttempt(body); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// ReceiveBatch is Receive for a subscription with a batch. Its requests may be larger than the default of MaxBytes: set it to the
// server's webhooks.max_body, 10 MiB by default.
func (r *Receiver) ReceiveBatch(req *http.Request) ([]*Delivery, error) {
	body, err := r.verified(req)
	if err != nil {
		return nil, err
	}
	return ParseBatch(req.Header, body)
}

// verified returns the request's body if its signature is valid.
func (r *Receiver) verified(req *http.Request) ([]byte, error) {
	limit := cmp.Or(r.MaxBytes, 1<<20)
	body, err := io.ReadAll(io.LimitReader(req.Body, limit+1))
	if err != nil {
		return nil, fmt.Errorf("webhook: read the body: %w", err)
	}
	if int64(len(body)) > limit {
		return nil, ErrTooLarge
	}
	return body, r.VerifyRequest(req, body)
}

// Status returns the HTTP status for an error: 401 for a failed verification, 400 for malformed
// content, 413 for a body that is too large, 500 for a receiver without secrets.
func Status(err error) int {
	switch {
	case errors.Is(err, ErrUnsigned), errors.Is(err, ErrSignature), errors.Is(err, ErrTimestamp):
		return http.StatusUnauthorized
	case errors.Is(err, ErrTooLarge):
		return http.StatusRequestEntityTooLarge
	case errors.Is(err, ErrSetup):
		return http.StatusInternalServerError
	default:
		return http.StatusBadRequest
	}
}

// Verify returns nil if one of the secrets or keys signed exactly these bytes and the signing time
// is within the tolerance, for schemes that sign a time (the scheme Header does not). The body must
// be the raw bytes, not re-encoded JSON (S1-70). Comparisons take constant time (S1-69). With the
// scheme Message it returns ErrSetup: use VerifyRequest.
func (r *Receiver) Verify(header http.Header, body []byte) error {
	switch cmp.Or(r.Scheme, Standard) {
	case Standard:
		return r.verifyStandard(header, body)
	case Ed25519:
		return r.verifyEd25519(header, body)
	case TSHA256:
		return r.verifyT(header.Get(HeaderSignature), body)
	case Header:
		return r.verifyHeader(header.Get(cmp.Or(r.Header, DefaultHeader)), body)
	case Message:
		return fmt.Errorf("%w: the scheme %s signs the method and the URL, too; use Receive or VerifyRequest", ErrSetup, Message)
	default:
		return fmt.Errorf("%w: scheme %q is unknown", ErrSetup, r.Scheme)
	}
}

// VerifyAttempt returns nil if one of the secrets produced the member "signature" of a body of the
// envelope Attempt, and the body's timestamp is within the tolerance (S4-56, S4-57).
func (r *Receiver) VerifyAttempt(body []byte) error {
	if !r.hasSecret() {
		return ErrSetup
	}
	var b struct {
		Event     json.RawMessage `json:"event"`
		Attempt   json.RawMessage `json:"attempt"`
		Timestamp json.RawMessage `json:"timestamp"`
		Signature string          `json:"signature"`
	}
	var at time.Time
	if json.Unmarshal(body, &b) != nil || json.Unmarshal(b.Timestamp, &at) != nil {
		return ErrMalformed
	}
	unsigned := fmt.Appendf(nil, `{"event":%s,"attempt":%s,"timestamp":%s}`, b.Event, b.Attempt, b.Timestamp)
	canonical, err := jcs.Transform(unsigned)
	if err != nil {
		return ErrMalformed
	}
	signature, err := hex.DecodeString(b.Signature)
	if err != nil {
		return ErrUnsigned
	}
	if err := r.checkTime(at); err != nil {
		return err
	}
	return r.matchSecret([][]byte{signature}, func(secret string) []byte { return bodyMAC(secret, canonical) })
}

func (r *Receiver) verifyStandard(header http.Header, body []byte) error {
	if !r.hasSecret() {
		return ErrSetup
	}
	id, timestamp, err := r.signedHead(header)
	if err != nil {
		return err
	}
	signatures, err := decodeSignatures(header.Get(HeaderSignature), prefixV1)
	if err != nil {
		return err
	}
	keys := make([][]byte, len(r.Secrets))
	for i, secret := range r.Secrets {
		if keys[i], err = Key(secret); err != nil {
			return fmt.Errorf("%w: %w", ErrSetup, err)
		}
	}
	for _, key := range keys {
		if contains(signatures, standardMAC(key, id, timestamp, body)) {
			return nil
		}
	}
	return ErrSignature
}

func (r *Receiver) verifyEd25519(header http.Header, body []byte) error {
	if len(r.Keys) == 0 {
		return ErrSetup
	}
	id, timestamp, err := r.signedHead(header)
	if err != nil {
		return err
	}
	signatures, err := decodeSignatures(header.Get(HeaderSignature), prefixV1a)
	if err != nil {
		return err
	}
	content := signedContent(id, timestamp, body)
	for _, key := range r.Keys {
		if len(key) != ed25519.PublicKeySize {
			return ErrSetup
		}
		for _, signature := range signatures {
			if ed25519.Verify(key, content, signature) {
				return nil
			}
		}
	}
	return ErrSignature
}

func (r *Receiver) verifyT(value string, body []byte) error {
	if !r.hasSecret() {
		return ErrSetup
	}
	var timestamp string
	var signatures [][]byte
	for part := range strings.SplitSeq(value, ",") {
		part = strings.TrimSpace(part)
		if t, ok := strings.CutPrefix(part, prefixT); ok && timestamp == "" {
			timestamp = t
		}
		if s, ok := strings.CutPrefix(part, prefixSHA256); ok && len(signatures) < maxSignatures {
			signatures = appendHex(signatures, s)
		}
	}
	if timestamp == "" || len(signatures) == 0 {
		return ErrUnsigned
	}
	if err := r.checkUnix(timestamp); err != nil {
		return err
	}
	return r.matchSecret(signatures, func(secret string) []byte { return tMAC(secret, timestamp, body) })
}

func (r *Receiver) verifyHeader(value string, body []byte) error {
	if !r.hasSecret() {
		return ErrSetup
	}
	s, ok := strings.CutPrefix(value, prefixSHA256)
	signatures := appendHex(nil, s)
	if !ok || len(signatures) == 0 {
		return ErrUnsigned
	}
	return r.matchSecret(signatures, func(secret string) []byte { return bodyMAC(secret, body) })
}

// hasSecret reports whether there are secrets and none is empty: with an empty secret, anyone could
// sign.
func (r *Receiver) hasSecret() bool {
	return len(r.Secrets) > 0 && !slices.Contains(r.Secrets, "")
}

// signedHead returns the signed ID and timestamp, after checking the time.
func (r *Receiver) signedHead(header http.Header) (id, timestamp string, err error) {
	id, timestamp = header.Get(HeaderID), header.Get(HeaderTimestamp)
	if id == "" || timestamp == "" {
		return "", "", ErrUnsigned
	}
	return id, timestamp, r.checkUnix(timestamp)
}

func (r *Receiver) checkUnix(timestamp string) error {
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	if err != nil {
		return ErrUnsigned
	}
	return r.checkTime(time.Unix(seconds, 0))
}

func (r *Receiver) checkTime(at time.Time) error {
	now := time.Now
	if r.Now != nil {
		now = r.Now
	}
	// A duration saturates, so the comparison holds for any time.
	if now().Sub(at).Abs() > cmp.Or(r.Tolerance, 5*time.Minute) {
		return ErrTimestamp
	}
	return nil
}

func (r *Receiver) matchSecret(signatures [][]byte, mac func(secret string) []byte) error {
	for _, secret := range r.Secrets {
		if contains(signatures, mac(secret)) {
			return nil
		}
	}
	return ErrSignature
}

// decodeSignatures returns the signatures of one version from a space-separated list.
func decodeSignatures(value, prefix string) ([][]byte, error) {
	var signatures [][]byte
	for part := range strings.FieldsSeq(value) {
		s, ok := strings.CutPrefix(part, prefix)
		if !ok || len(signatures) == maxSignatures {
			continue
		}
		if signature, err := base64.StdEncoding.DecodeString(s); err == nil {
			signatures = append(signatures, signature)
		}
	}
	if len(signatures) == 0 {
		return nil, ErrUnsigned
	}
	return signatures, nil
}

func appendHex(signatures [][]byte, s string) [][]byte {
	signature, err := hex.DecodeString(s)
	if err != nil || len(signature) == 0 {
		return signatures
	}
	return append(signatures, signature)
}

func contains(signatures [][]byte, mac []byte) bool {
	for _, signature := range signatures {
		if hmac.Equal(signature, mac) {
			return true
		}
	}
	return false
}
