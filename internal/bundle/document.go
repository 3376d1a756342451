package bundle

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"iter"
	"unicode/utf8"

	"github.com/sluice-io/sluice/internal/jsonarray"
	"github.com/sluice-io/sluice/internal/strictjson"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// MaxDocument limits a bundle in one JSON document, in bytes. A larger one is a directory.
const MaxDocument = 64 << 20

// maxEntries limits the entries of a JSON document. An entry has more than 64 bytes.
const maxEntries = MaxDocument / 64

// Content is the verified content of a bundle.
type Content struct {
	Header Header
	Digest string
	each   func(ctx context.Context, yield func(*wire, []byte) error) error
}

// Entries returns the entries with sequences above after, ascending. The caller may keep their
// content, which may share memory with that of other entries. The sequence ends with an error if
// the content has changed since it was verified, or if ctx ends; the entries before the error are
// valid. Each call reads the bundle again from its beginning, also the entries up to after. Several
// may run at the same time.
func (c *Content) Entries(ctx context.Context, after uint64) iter.Seq2[Entry, error] {
	depth := c.Header.Depth()
	return func(yield func(Entry, error) bool) {
		err := c.each(ctx, func(w *wire, content []byte) error {
			if w.seq <= after {
				return nil
			}
			e, err := w.entry(depth, content)
			if err == nil && !yield(e, nil) {
				err = stopped{}
			}
			return err
		})
		if err != nil && !errors.Is(err, stopped{}) {
			yield(Entry{}, err)
		}
	}
}

// stopped is the error with which the consumer of entries ends their reading.
type stopped struct{}

func (stopped) Error() string { return "the reader has enough entries" }

// DocumentWriter writes a bundle as one JSON document (S3-62 to S3-67). It keeps the document in memory.
type DocumentWriter struct {
	depth   sluice.Depth
	tally   *tally
	entries []byte
}

// NewDocumentWriter returns a writer of a bundle of a scope that begins after a sequence. Code
// InvalidRequest.
func NewDocumentWriter(scope string, since uint64) (*DocumentWriter, error) {
	depth, err := depthOf(scope)
	return &DocumentWriter{depth: depth, tally: newTally(since), entries: []byte{'['}}, err
}

// Append adds an entry; sequences must ascend. Codes: Unprocessable; TooLarge if the document would
// be larger than MaxDocument: a directory can be larger. After TooLarge the document is as before
// the call and can be sealed. After another error, do not seal it.
func (d *DocumentWriter) Append(e Entry) error {
	w, err := toWire(&e, d.depth)
	if err != nil {
		return err
	}
	size := len(d.entries)
	if size > 1 {
		d.entries = append(d.entries, ',')
	}
	// The header is signed at the end and may take all of maxHeader.
	if d.entries = w.append(d.entries); len(d.entries) > MaxDocument-maxHeader {
		d.entries = d.entries[:size]
		return sluice.Errorf(sluice.TooLarge, "the bundle is larger than %d bytes in JSON; export it into a directory", MaxDocument)
	}
	return d.tally.addInline(w)
}

// Seal completes the header (Format, Alg, KeyID, Count, Heartbeat, Entries), signs it with the
// entries, and returns the document and the completed header. The caller sets all other fields of
// the header. Call Seal once, as the last method: it uses the memory of the entries. Code
// Unprocessable if the header contradicts the entries.
func (d *DocumentWriter) Seal(h Header, key ed25519.PrivateKey) ([]byte, Header, error) {
	h, err := seal(h, d.depth, d.tally, key)
	if err != nil {
		return nil, Header{}, err
	}
	members, err := membersOf(&h)
	if err != nil {
		return nil, Header{}, err
	}
	members["entries"] = append(d.entries, ']')
	message, _ := assemble(members, "")
	members["signature"] = quoteSignature(ed25519.Sign(key, message))
	text, _ := assemble(members, "")
	return text, h, nil
}

// seal completes the header of a bundle.
func seal(h Header, depth sluice.Depth, t *tally, key ed25519.PrivateKey) (Header, error) {
	public, err := publicOf(key)
	if err != nil {
		return Header{}, err
	}
	h.Scope = depth.Scope()
	return t.complete(h, KeyID(public))
}

// membersOf returns the members of a header in canonical form.
func membersOf(h *Header) (map[string][]byte, error) {
	text, err := h.canonical()
	if err != nil {
		return nil, err
	}
	return split(text)
}

// Document is a bundle that was read from a JSON document and is not verified yet.
type Document struct {
	Signed
	entries [][]byte // canonical, parts of the signed message
}

// ReadDocument reads a bundle in JSON and checks its form: exactly the members of a bundle, once
// each, in valid UTF-8; entries in their order. Codes: TooLarge above MaxDocument; Unprocessable;
// BundleSignatureInvalid if the signature is malformed. A count or digest that contradicts the
// entries is not reported here, but by Verify after the signature, because it accuses the signer.
func ReadDocument(r io.Reader) (*Document, error) {
	data, err := io.ReadAll(io.LimitReader(r, MaxDocument+1))
	if err != nil {
		return nil, fmt.Errorf("read a bundle: %w", err)
	}
	if len(data) > MaxDocument {
		return nil, sluice.Errorf(sluice.TooLarge, "the bundle is larger than %d bytes; import it as a directory", MaxDocument)
	}
	if !utf8.Valid(data) {
		return nil, invalid("it is not valid UTF-8")
	}
	members, err := split(data)
	if err != nil {
		return nil, err
	}
	d := &Document{}
	if d.signature, err = parseSignature(members["signature"]); err != nil {
		return nil, err
	}
	entries := members["entries"]
	delete(members, "signature")
	delete(members, "entries")
	if err := d.readHeader(members); err != nil {
		return nil, err
	}
	return d, d.readEntries(entries)
}

func (s *Signed) readHeader(members map[string][]byte) (err error) {
	if s.Header, err = parseHeader(members); err != nil {
		return err
	}
	s.digest, err = s.Header.Digest()
	return err
}

// readEntries parses the member entries, and computes the signed message.
func (d *Document) readEntries(raw []byte) error {
	elements, err := jsonarray.Split(raw, maxEntries)
	if err != nil {
		return invalid("entries: %v", err)
	}
	t, depth := newTally(d.Header.Since), d.Header.Depth()
	joined := append(make([]byte, 0, len(raw)), '[')
	ends := make([]int, len(elements))
	for i, element := range elements {
		w, text, err := canonicalEntry(element, depth)
		if err != nil {
			return err
		}
		if w.file != "" {
			return invalid("entry %d: content_file is for directories", w.seq)
		}
		if _, err := w.entry(depth, nil); err != nil {
			return err
		}
		if err := t.addInline(w); err != nil {
			return err
		}
		if i > 0 {
			joined = append(joined, ',')
		}
		joined = append(joined, text...)
		ends[i] = len(joined)
	}
	d.flaw = t.match(&d.Header)
	return d.setMessage(append(joined, ']'), ends)
}

// setMessage sets the signed message: the header with the joined entries. Ends are the positions at
// which the entries end.
func (d *Document) setMessage(joined []byte, ends []int) error {
	members, err := membersOf(&d.Header)
	if err != nil {
		return err
	}
	members["entries"] = joined
	message, at := assemble(members, "entries")
	d.message, d.entries = message, make([][]byte, len(ends))
	start := at + 1
	for i, end := range ends {
		d.entries[i] = message[start : at+end]
		start = at + end + 1
	}
	return nil
}

// canonicalEntry parses an unambiguous entry, and returns it with its canonical form. The entries
// of Sluice are canonical already, and need no transformation. Another writer may choose the order
// of members and the white space, as long as its text is unambiguous.
func canonicalEntry(element []byte, depth sluice.Depth) (*wire, []byte, error) {
	if w, err := parseEntry(element, depth); err == nil { // it is already canonical, except perhaps its claims
		if text, err := canonical(w.claims); err == nil && bytes.Equal(text, w.claims) {
			return w, element, nil
		}
	}
	if err := strictjson.Check(element); err != nil {
		return nil, nil, invalid("%v", err)
	}
	if !shapeOf(element).exact {
		return nil, nil, invalid("a number in the entry %.80q does not survive RFC 8785", element)
	}
	text, err := canonical(element)
	if err != nil {
		return nil, nil, err
	}
	w, err := parseEntry(text, depth)
	return w, text, err
}

// Verify returns the content if a trusted key of the source signed the bundle, and its entries
// match the header. Codes: UnknownKey, BundleSignatureInvalid, Unprocessable. It does no I/O. The
// content stays in memory until the last reference to it is gone.
func (d *Document) Verify(_ context.Context, trust Trust) (*Content, error) {
	if err := d.verify(trust); err != nil {
		return nil, err
	}
	depth := d.Header.Depth()
	return &Content{Header: d.Header, Digest: d.digest, each: func(ctx context.Context, yield func(*wire, []byte) error) error {
		for _, text := range d.entries {
			if err := ctx.Err(); err != nil {
				return fmt.Errorf("read a bundle: %w", err)
			}
			w, err := parseEntry(text, depth)
			if err == nil {
				err = yield(w, w.content)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}}, nil
}
