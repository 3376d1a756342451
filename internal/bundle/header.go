package bundle

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sluice-io/sluice/internal/strictjson"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Format is the type of a bundle. It is part of the signed message, so that no other signed
// document is accepted as a bundle.
const Format = "sluice.bundle/1"

// Alg is the only signature algorithm (RFC 9864).
const Alg = "Ed25519"

// Limits of a header: the bytes of all of it, the bytes of each name and id, and the elements of
// Lost and of Passed.
const (
	maxHeader = 1 << 20
	maxName   = 512
	maxList   = 10_000
)

// Header holds all statements of a bundle except its entries (S3-62, S3-63). Sequences are those of
// the source's log, at most 2⁵³−1. Digests are SHA-256 in hex. Once parsed or sealed, a header is
// complete: no list is nil, times are UTC.
type Header struct {
	Format      string `json:"format"`
	SourceID    string `json:"source_notebook_id"`
	SourceName  string `json:"source_notebook_name"`
	Incarnation string `json:"incarnation"` // of the source's log
	Scope       string `json:"scope"`       // catalog, claims or entries
	// The bundle has every change above Since up to Through that its exporter may read.
	Since   uint64 `json:"since_sequence"`
	Through uint64 `json:"through_sequence"`
	// First is the first stored sequence; retention has removed the changes before it.
	First     uint64       `json:"first_sequence"`
	Lost      []sluice.Gap `json:"lost"` // ranges in (Since, Through] that are lost to damage, ascending
	Count     uint64       `json:"count"`
	Heartbeat bool         `json:"heartbeat"`      // there is no entry: nothing new through Through at ExportedAt
	Entries   string       `json:"entries_sha256"` // digest of the entries, the same in both forms
	// Previous is the digest of the previous bundle; "" for the first one. A bundle without a range
	// (Since = Through) is not a link of the chain: the next bundle has the same Previous.
	Previous   string       `json:"previous"`
	Label      sluice.Label `json:"label"`  // of the source at ExportedAt
	Passed     []sluice.Hop `json:"passed"` // logs whose content the source has in mirrors
	ExportedAt time.Time    `json:"exported_at"`
	KeyID      string       `json:"kid"`
	Alg        string       `json:"alg"`
}

// Depth returns how much of each event the bundle has. It returns "" for a header with an unknown
// scope.
func (h *Header) Depth() sluice.Depth {
	d, _ := sluice.ParseDepth(h.Scope) // checked
	return d
}

// Digest returns the digest of the bundle: SHA-256, in hex, of the canonical header. The signature
// is not part of it, so bundles that differ only in their signature are one link of the chain.
func (h *Header) Digest() (string, error) {
	text, err := h.canonical()
	if err != nil {
		return "", err
	}
	return hexSum(text), nil
}

func hexSum(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// canonical returns the header as canonical JSON.
func (h *Header) canonical() ([]byte, error) {
	text, err := json.Marshal(h)
	if err != nil {
		return nil, fmt.Errorf("bundle: header: %w", err)
	}
	return canonical(text)
}

// parseHeader parses the members of a header, and accepts only the form that canonical returns.
func parseHeader(members map[string][]byte) (Header, error) {
	text, _ := assemble(members, "")
	if len(text) > maxHeader {
		return Header{}, sluice.Errorf(sluice.TooLarge, "bundle: the header is larger than %d bytes", maxHeader)
	}
	if err := strictjson.Check(text); err != nil {
		return Header{}, invalid("%v", err)
	}
	if !shapeOf(text).exact {
		return Header{}, invalid("a number is too large for RFC 8785")
	}
	text, err := canonical(text)
	if err != nil {
		return Header{}, err
	}
	var h Header
	if err := strictjson.DecodeAs(text, &h, sluice.Unprocessable); err != nil {
		return Header{}, invalid("%v", err)
	}
	if err := h.check(); err != nil {
		return Header{}, err
	}
	if same, err := h.canonical(); err != nil || !bytes.Equal(same, text) {
		return Header{}, invalid("a member of the header is missing or has another form than Sluice writes")
	}
	return h, nil
}

// check returns an error (Unprocessable) unless the header is valid by itself.
func (h *Header) check() error {
	depth, err := sluice.ParseDepth(h.Scope)
	switch {
	case h.Format != Format:
		return invalid("format %.100q is unknown; this release reads %s", h.Format, Format)
	case h.Alg != Alg:
		return invalid("algorithm %.100q is refused; use %s", h.Alg, Alg)
	case err != nil || depth.Scope() != h.Scope:
		return invalid("scope %.100q: use catalog, claims or entries", h.Scope)
	case !isPlain(h.SourceID, 1), !isPlain(h.SourceName, 0), !isPlain(h.Incarnation, 1), !isPlain(h.KeyID, 1):
		return invalid("source, name, incarnation and kid have at most %d bytes of UTF-8 without control characters", maxName)
	case !isDigest(h.Entries) || h.Previous != "" && !isDigest(h.Previous):
		return invalid("entries_sha256 and previous are SHA-256 digests in lower-case hex")
	case h.Lost == nil || h.Passed == nil:
		return invalid("lost and passed are lists; an empty one is []")
	case h.ExportedAt.IsZero() || h.ExportedAt.Location() != time.UTC:
		return invalid("exported_at is missing or not in UTC")
	}
	if err := h.checkRange(); err != nil {
		return err
	}
	return h.checkLabel()
}

// checkRange returns an error (Unprocessable) unless the sequences and ranges fit together. Fewer
// entries than sequences are normal: retention and the rights of the exporter leave some out.
func (h *Header) checkRange() error {
	switch {
	case h.Through > maxSequence || h.First > maxSequence:
		return invalid("a sequence is above 2^53-1, which RFC 8785 cannot represent")
	case h.Since > h.Through:
		return invalid("since_sequence %d is behind through_sequence %d", h.Since, h.Through)
	case h.Count > h.Through-h.Since:
		return invalid("%d entries do not fit between %d and %d", h.Count, h.Since, h.Through)
	case h.Heartbeat != (h.Count == 0):
		return invalid("heartbeat is %t with %d entries", h.Heartbeat, h.Count)
	case len(h.Lost) > maxList:
		return invalid("more than %d ranges are lost", maxList)
	}
	end := h.Since
	for _, g := range h.Lost {
		if g.From <= end || g.To < g.From || g.To > h.Through {
			return invalid("lost: %d to %d is out of order, or not between %d and %d", g.From, g.To, h.Since, h.Through)
		}
		end = g.To
	}
	return nil
}

// checkLabel returns an error (Unprocessable) unless the label is valid and canonical, and each log
// that was passed is named once with a bounded number of hops.
func (h *Header) checkLabel() error {
	label := h.Label
	if err := label.Check(); err != nil {
		return invalid("label: %v", err)
	}
	if strings.Join(label.Compartments, ",") != strings.Join(h.Label.Compartments, ",") {
		return invalid("label: compartments are not ascending")
	}
	if len(h.Passed) > maxList {
		return invalid("more than %d logs were passed", maxList)
	}
	seen := make(map[string]bool, len(h.Passed))
	for _, hop := range h.Passed {
		if !isPlain(hop.Incarnation, 1) || seen[hop.Incarnation] || hop.Hops < 1 || hop.Hops > sluice.MaxMirrorHops {
			return invalid("passed: log %.100q with %d hops; hops are 1 to %d, and a log is named once", hop.Incarnation, hop.Hops, sluice.MaxMirrorHops)
		}
		seen[hop.Incarnation] = true
	}
	return nil
}

// isPlain reports whether s is valid UTF-8 of least to maxName bytes without control characters.
func isPlain(s string, least int) bool {
	return len(s) >= least && len(s) <= maxName && utf8.ValidString(s) &&
		!strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// isDigest reports whether s is a SHA-256 digest in hex.
func isDigest(s string) bool { return len(s) == 64 && strings.Trim(s, "0123456789abcdef") == "" }
