package bundle

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// tally counts the entries of a bundle in their order, and computes their digest. Each text has its
// length before it, so that different lists of entries have different inputs of the digest. Content
// counts by its SHA-256, inline or in a file, so both forms of a bundle have the same digest.
type tally struct {
	since, last, count uint64
	sum                hash.Hash
	buffer             []byte
}

func newTally(since uint64) *tally {
	t := &tally{since: since, last: since, sum: sha256.New()}
	t.sum.Write([]byte("sluice.bundle.entries/1\n"))
	return t
}

// add counts an entry with the SHA-256 of its content. Code Unprocessable unless its sequence is
// above the previous one.
func (t *tally) add(w *wire, content []byte) error {
	if w.seq <= t.last {
		return invalid("entry %d is out of order: it comes after %d", w.seq, t.last)
	}
	t.last = w.seq
	t.count++
	b := binary.BigEndian.AppendUint64(t.buffer[:0], w.seq)
	b = binary.BigEndian.AppendUint64(b, w.erased)
	for _, field := range [...]string{
		string(w.op), w.id, w.topic, w.kind, w.time, w.source, w.subject, w.dataSchema, w.contentType, w.revisionOf,
	} {
		b = append(binary.AppendUvarint(b, uint64(len(field))), field...)
	}
	b = binary.AppendUvarint(b, uint64(len(w.extensions)))
	for _, field := range w.extensions {
		b = append(binary.AppendUvarint(b, uint64(len(field))), field...)
	}
	b = append(binary.AppendUvarint(b, uint64(len(w.claims))), w.claims...)
	b = append(binary.AppendUvarint(b, uint64(len(content))), content...)
	t.sum.Write(b)
	t.buffer = b
	return nil
}

// addInline is add for an entry with inline content, or without content.
func (t *tally) addInline(w *wire) error {
	if w.sum == nil {
		w.sum = w.inlineSum()
	}
	return t.add(w, w.sum)
}

// inlineSum returns the SHA-256 of an entry's inline content; nil if it has none.
func (w *wire) inlineSum() []byte {
	if !w.text && !w.base64 {
		return nil
	}
	sum := sha256.Sum256(w.content)
	return sum[:]
}

// digest returns the digest of the entries, in hex.
func (t *tally) digest() string { return hex.EncodeToString(t.sum.Sum(nil)) }

// complete sets the fields of a header that depend on the entries and on the signing key, and
// checks the header.
func (t *tally) complete(h Header, kid string) (Header, error) {
	h.Format, h.Alg, h.KeyID = Format, Alg, kid
	h.Count, h.Heartbeat, h.Entries = t.count, t.count == 0, t.digest()
	h.ExportedAt = h.ExportedAt.UTC()
	h.Lost = append([]sluice.Gap{}, h.Lost...)
	h.Passed = append([]sluice.Hop{}, h.Passed...)
	if h.Since != t.since || h.Through < t.last {
		return Header{}, invalid("the entries are from %d to %d, the header is about %d to %d", t.since, t.last, h.Since, h.Through)
	}
	return h, h.check()
}

// match returns an error (Unprocessable) unless the entries are those of the header.
func (t *tally) match(h *Header) error {
	switch {
	case t.count != h.Count:
		return invalid("it has %d entries, not %d", t.count, h.Count)
	case t.last > h.Through:
		return invalid("entry %d is behind through_sequence %d", t.last, h.Through)
	case t.digest() != h.Entries: // not a secret: it is in the bundle
		return invalid("the entries are not those of entries_sha256")
	}
	return nil
}

// depthOf returns the depth of a scope. Code InvalidRequest.
func depthOf(scope string) (sluice.Depth, error) {
	depth, err := sluice.ParseDepth(scope)
	if err != nil {
		return "", err //nolint:wrapcheck // names the scopes
	}
	return depth, nil
}
