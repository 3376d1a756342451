package bundle

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"strconv"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Bundle is a bundle in either form that is not verified yet.
type Bundle interface {
	Statement() *Signed
	// Verify returns the content if a trusted key of the source signed all of it. Codes: UnknownKey,
	// BundleSignatureInvalid, Unprocessable.
	Verify(ctx context.Context, trust Trust) (*Content, error)
}

// Signed is the signed statement of a bundle, in either form. Do not trust it before its signature
// is verified; Judge does that.
type Signed struct {
	Header    Header
	digest    string
	message   []byte // the signed bytes
	signature []byte
	flaw      error // a contradiction in the statement, reported only for a trusted signer
}

// Statement returns the signed statement.
func (s *Signed) Statement() *Signed { return s }

// Digest returns the digest of the bundle (Header.Digest).
func (s *Signed) Digest() string { return s.digest }

// verify returns an error unless a trusted key of the source signed the bundle. Codes: UnknownKey,
// BundleSignatureInvalid (S3-70); Unprocessable.
func (s *Signed) verify(trust Trust) error {
	key, err := trust.Find(s.Header.KeyID, s.Header.SourceID)
	if err != nil {
		return err
	}
	if !ed25519.Verify(key, s.message, s.signature) {
		return sluice.Errorf(sluice.BundleSignatureInvalid, "the signature is not that of key %s over this bundle", s.Header.KeyID)
	}
	return s.flaw
}

// envelope returns the bytes to sign for a document with a type: the type and the document, each
// after its length (the pre-authentication encoding of DSSE). The type prevents that a signature of
// one kind of document is shown as one of another:
//
//	DSSEv1 42 application/vnd.sluice.bundle.receipt+json 312 {…}
func envelope(kind string, body []byte) []byte {
	b := append(make([]byte, 0, len(body)+len(kind)+64), "DSSEv1 "...)
	b = append(strconv.AppendInt(b, int64(len(kind)), 10), ' ')
	b = append(append(b, kind...), ' ')
	b = append(strconv.AppendInt(b, int64(len(body)), 10), ' ')
	return append(b, body...)
}

// quoteSignature returns a signature as a JSON string.
func quoteSignature(signature []byte) []byte {
	return append(base64.StdEncoding.AppendEncode([]byte{'"'}, signature), '"')
}

// parseSignature parses a signature. Code BundleSignatureInvalid.
func parseSignature(quoted []byte) ([]byte, error) {
	var text string
	err := json.Unmarshal(quoted, &text)
	signature, bad := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil || bad != nil || len(signature) != ed25519.SignatureSize || base64.StdEncoding.EncodeToString(signature) != text {
		return nil, sluice.Errorf(sluice.BundleSignatureInvalid, "the signature is missing, or not base64 of %d bytes", ed25519.SignatureSize)
	}
	return signature, nil
}
