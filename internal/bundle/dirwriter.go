package bundle

import (
	"crypto/ed25519"
	"maps"
	"slices"
	"strings"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// DirectoryWriter writes a bundle as plain files: entries-00001.ndjson and so on,
// data/<sha256>.<extension> for content that is large or not text, SHA256SUMS, and finally
// manifest.json. It keeps one file in memory. Only the names of the files grow with the bundle. It
// is for one goroutine. After an error other than TooLarge of Append, the bundle cannot be
// completed.
type DirectoryWriter struct {
	put     func(name string, content []byte) error
	depth   sluice.Depth
	tally   *tally
	entries []file
	data    map[string]file
	lines   []byte
	line    []byte // of the last entry
}

// NewDirectoryWriter returns a writer of a bundle of a scope that begins after a sequence. It
// passes each complete file to put, a data file before the entries that refer to it. Code
// InvalidRequest. put must not keep the content, whose memory the writer uses again. An error of
// put ends the bundle and is returned unchanged by Append or Seal.
func NewDirectoryWriter(scope string, since uint64, put func(name string, content []byte) error) (*DirectoryWriter, error) {
	depth, err := depthOf(scope)
	return &DirectoryWriter{put: put, depth: depth, tally: newTally(since), data: map[string]file{}}, err
}

// Append adds an entry; sequences must ascend. Codes: Unprocessable; TooLarge if the bundle has too
// many files: export the rest into another bundle.
func (d *DirectoryWriter) Append(e Entry) error {
	w, err := toWire(&e, d.depth)
	if err != nil {
		return err
	}
	if w.seq <= d.tally.last {
		return invalid("entry %d is out of order: it comes after %d", w.seq, d.tally.last)
	}
	var f file
	if w.base64 || len(w.content) > maxInline {
		f = fileOf("", w.content)
		f.Name = dataName(f.SHA256, w.contentType)
		w.text, w.base64, w.file = false, false, f.Name
	}
	d.line = append(w.append(d.line[:0]), '\n')
	line := d.line
	if len(line) > maxFile {
		return sluice.Errorf(sluice.TooLarge, "bundle: entry %d is larger than %d bytes", w.seq, maxFile)
	}
	if err := d.putData(w, f); err != nil {
		return err
	}
	if len(d.lines)+len(line) > entriesSize {
		if err := d.flush(); err != nil {
			return err
		}
	}
	d.lines = append(d.lines, line...)
	return addTo(d.tally, w)
}

// putData writes the content of an entry into a file of its own, if the file has a name. Equal
// content of several entries is one file, named by its digest.
func (d *DirectoryWriter) putData(w *wire, f file) error {
	if _, ok := d.data[f.Name]; ok || f.Name == "" {
		return nil
	}
	if len(d.data)+len(d.entries)+2 > maxFiles {
		return sluice.Errorf(sluice.TooLarge, "bundle: more than %d files; export the entries from %d on into another bundle", maxFiles, w.seq)
	}
	if err := d.put(f.Name, w.content); err != nil {
		return err
	}
	d.data[f.Name] = f
	return nil
}

// flush writes the lines into the next file.
func (d *DirectoryWriter) flush() error {
	if len(d.lines) == 0 {
		return nil
	}
	f := fileOf(entriesName(len(d.entries)+1), d.lines)
	if err := d.put(f.Name, d.lines); err != nil {
		return err
	}
	d.entries, d.lines = append(d.entries, f), d.lines[:0]
	return nil
}

// Seal completes the header as DocumentWriter.Seal does, signs it with the digests of the files,
// and writes the manifest. It returns the header. The manifest is put last and SHA256SUMS before
// it, so a directory without a manifest is incomplete, and a reader never takes it for a bundle.
func (d *DirectoryWriter) Seal(h Header, key ed25519.PrivateKey) (Header, error) {
	if err := d.flush(); err != nil {
		return Header{}, err
	}
	h, err := seal(h, d.depth, d.tally, key)
	if err != nil {
		return Header{}, err
	}
	m := &Manifest{Signed: Signed{Header: h}, files: slices.Collect(maps.Values(d.data))}
	m.files = append(m.files, d.entries...)
	slices.SortFunc(m.files, func(a, b file) int { return strings.Compare(a.Name, b.Name) })
	if err := m.seal(); err != nil {
		return Header{}, err
	}
	m.signature = ed25519.Sign(key, m.message)
	if m.text, err = m.format(); err != nil {
		return Header{}, err
	}
	if err := d.put(sumsFile, m.sums()); err != nil {
		return Header{}, err
	}
	return h, d.put(ManifestFile, m.text)
}
