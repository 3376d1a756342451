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

// Why a request was not believed or not understood; Status gives the answer to each.
var (
	ErrUnsigned  = errors.New("webhook: the signature headers are missing or not readable")
	ErrSignature = errors.New("webhook: no signature matches")
	ErrTimestamp = errors.New("webhook: the signing time is too far from now")
	ErrTooLarge  = errors.New("webhook: the body is too large")
	ErrMalformed = errors.New("webhook: the body is not the envelope that is expected")
	ErrSetup     = errors.New("webhook: the receiver has no usable secret or key")
)

// maxSignatures bounds what one request can make a receiver compute.
const maxSignatures = 16

// Receiver knows one subscription's secrets and how it signs and packs. Its zero value needs
// Secrets (or Keys) only. It is safe for concurrent use while nobody changes it.
type Receiver struct {
	Scheme    Scheme              // Standard
	Secrets   []string            // any of them may have signed; two during a rotation
	Keys      []ed25519.PublicKey // for Ed25519; see ParseKeys
	Header    string              // for Header; DefaultHeader
	Envelope  Envelope            // told from the request if empty; see Parse
	Tolerance time.Duration       // between the signing time and now; 5 minutes (S1-67)
	MaxBytes  int64               // of a body; 1 MiB
	Now       func() time.Time    // time.Now
}

// Receive reads the request's body, verifies its signature and returns what it says. With the
// envelope Attempt it also verifies the signature inside the body, if there are Secrets to do it
// with. Errors are one of this package's, or what reading the body returned.
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

// verified returns the request's body if its signature is good.
func (r *Receiver) verified(req *http.Request) ([]byte, error) {
	limit := cmp.Or(r.MaxBytes, 1<<20)
	body, err := io.ReadAll(io.LimitReader(req.Body, limit+1))
	if err != nil {
		return nil, fmt.Errorf("webhook: read the body: %w", err)
	}
	if int64(len(body)) > limit {
		return nil, ErrTooLarge
	}
	return body, r.Verify(req.Header, body)
}

// Status returns the HTTP status that says to the sender what err means: 401 for what was not
// believed, 400 for what was not understood, 413, 500 for a receiver without secrets.
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

// Verify returns nil if one of the secrets or keys signed exactly these bytes, within the
// tolerance of now where the scheme has a time (the scheme Header has none). The body must be
// the raw one, never JSON that was written again (S1-70). Comparisons take constant time (S1-69).
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
	default:
		return fmt.Errorf("%w: scheme %q is unknown", ErrSetup, r.Scheme)
	}
}

// VerifyAttempt returns nil if one of the secrets made the member "signature" of a body of the
// envelope Attempt, and the body's timestamp is within the tolerance of now (S4-56, S4-57).
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

// hasSecret also refuses an empty secret: anybody can sign with that.
func (r *Receiver) hasSecret() bool {
	return len(r.Secrets) > 0 && !slices.Contains(r.Secrets, "")
}

// signedHead returns the id and the timestamp as they were signed, after checking the time.
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
	// A duration saturates, so that no time is too far away for this.
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

// decodeSignatures returns the signatures of one version out of several, separated by spaces.
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
