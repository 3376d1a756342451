package bundle

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"time"

	"github.com/sluice-io/sluice/internal/strictjson"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// receiptType is the type of the signed document of a receipt.
const receiptType = "application/vnd.sluice.bundle.receipt+json"

// maxReceipt limits a receipt, in bytes.
const maxReceipt = 16 << 10

// Receipt is the statement of an importer that it has imported a bundle. The source then need not
// export changes up to Through again, and names Bundle as the previous bundle of its next export.
type Receipt struct {
	Importer    string    `json:"importer"` // the name under which the source trusts its key
	SourceID    string    `json:"source_notebook_id"`
	Incarnation string    `json:"incarnation"`
	Scope       string    `json:"scope"`
	Bundle      string    `json:"bundle"` // digest of the last bundle that was imported
	Through     uint64    `json:"through_sequence"`
	At          time.Time `json:"at"`
	KeyID       string    `json:"kid"`
	Alg         string    `json:"alg"`
	Signature   []byte    `json:"signature,omitempty"`
}

// message returns the signed bytes.
func (r Receipt) message() ([]byte, error) {
	r.Signature = nil
	body, err := json.Marshal(r)
	if err == nil {
		body, err = canonical(body)
	}
	if err != nil {
		return nil, fmt.Errorf("receipt: %w", err)
	}
	return envelope(receiptType, body), nil
}

// SignReceipt returns a receipt as JSON; it sets KeyID, Alg and Signature. Code Unprocessable
// unless it is complete.
func SignReceipt(r Receipt, key ed25519.PrivateKey) ([]byte, error) {
	public, err := publicOf(key)
	if err != nil {
		return nil, err
	}
	r.KeyID, r.Alg, r.At = KeyID(public), Alg, r.At.UTC()
	if err := r.check(); err != nil {
		return nil, err
	}
	message, err := r.message()
	if err != nil {
		return nil, err
	}
	r.Signature = ed25519.Sign(key, message)
	body, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("receipt: %w", err)
	}
	return canonical(body)
}

func (r *Receipt) check() error {
	depth, err := sluice.ParseDepth(r.Scope)
	switch {
	case r.Alg != Alg:
		return invalid("algorithm %.100q is refused; use %s", r.Alg, Alg)
	case err != nil || depth.Scope() != r.Scope:
		return invalid("scope %.100q: use catalog, claims or entries", r.Scope)
	case !isPlain(r.Importer, 1), !isPlain(r.SourceID, 1), !isPlain(r.Incarnation, 1), !isPlain(r.KeyID, 1):
		return invalid("a receipt names importer, source, incarnation and key")
	case !isDigest(r.Bundle), r.Through > maxSequence, r.At.IsZero():
		return invalid("a receipt has the digest of a bundle, a sequence up to 2^53-1 and a time")
	}
	return nil
}

// ReadReceipt parses a receipt that a trusted key of its importer signed, in exactly the form that
// SignReceipt returns. Codes: Unprocessable, UnknownKey, BundleSignatureInvalid.
func ReadReceipt(text []byte, trust Trust) (Receipt, error) {
	if len(text) > maxReceipt {
		return Receipt{}, sluice.Errorf(sluice.TooLarge, "the receipt is larger than %d bytes", maxReceipt)
	}
	text = bytes.TrimSpace(text)
	var r Receipt
	if err := strictjson.DecodeAs(text, &r, sluice.Unprocessable); err != nil {
		return Receipt{}, invalid("receipt: %v", err)
	}
	if err := r.check(); err != nil {
		return Receipt{}, err
	}
	same, err := json.Marshal(r)
	if err == nil {
		same, err = canonical(same)
	}
	if err != nil || string(same) != string(text) {
		return Receipt{}, invalid("the receipt has another form than Sluice writes")
	}
	key, err := trust.Find(r.KeyID, r.Importer)
	if err != nil {
		return Receipt{}, err
	}
	message, err := r.message()
	if err != nil {
		return Receipt{}, err
	}
	if !ed25519.Verify(key, message, r.Signature) {
		return Receipt{}, sluice.Errorf(sluice.BundleSignatureInvalid, "the signature is not that of key %s over this receipt", r.KeyID)
	}
	return r, nil
}
