package bundle

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// DirectoryWriter writes a bundle as a directory of plain files: manifest.json, SHA256SUMS,
// entries-00001.ndjson and so on, and data/<sha256>.<extension> for content that is large or no
// text. It keeps one file of entries in memory.
type DirectoryWriter struct {
	root    *os.Root
	start   Header
	depth   sluice.Depth
	tally   *tally
	entries []file
	data    map[string]file
	lines   []byte
}

// CreateDirectory returns a writer into a directory, which is made if necessary, of a bundle with the
// SourceID, Incarnation, Scope and Since of a header. If an export of the same ended there early, it
// goes on behind Last; a directory with anything else is a Conflict.
func CreateDirectory(path string, start Header) (*DirectoryWriter, error) {
	depth, err := depthOf(start.Scope)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(path, 0o755); err != nil { //nolint:gosec // couriers read it
		return nil, fmt.Errorf("bundle: %w", err)
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, fmt.Errorf("bundle: %w", err)
	}
	d := &DirectoryWriter{root: root, start: start, depth: depth, tally: newTally(start.Since), data: map[string]file{}}
	if err := d.begin(); err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return d, nil
}

// Close ends the writing. Without Seal, the export can go on later.
func (d *DirectoryWriter) Close() error {
	if err := d.root.Close(); err != nil {
		return fmt.Errorf("bundle: %w", err)
	}
	return nil
}

// Last returns the sequence of the last entry in the directory; Since if there is none.
func (d *DirectoryWriter) Last() uint64 { return d.tally.last }

// begin starts the export, or goes on with one.
func (d *DirectoryWriter) begin() error {
	names, err := fs.ReadDir(d.root.FS(), ".")
	if err != nil {
		return fmt.Errorf("bundle: %w", err)
	}
	if len(names) == 0 {
		return d.mark()
	}
	if _, err := d.root.Lstat(ManifestFile); err == nil {
		return sluice.Errorf(sluice.Conflict, "the directory has a bundle; choose another one")
	}
	if err := d.checkMark(); err != nil {
		return err
	}
	if err := d.resume(); err != nil {
		return err
	}
	return d.sweep()
}

// mark writes the beginning of a manifest, by which an export that ended early is recognized.
func (d *DirectoryWriter) mark() error {
	text, err := json.Marshal(map[string]any{
		"source_notebook_id": d.start.SourceID, "incarnation": d.start.Incarnation, "scope": d.depth.Scope(), "since_sequence": d.start.Since,
	})
	if err == nil {
		err = writeFile(d.root, ManifestFile+partial, text)
	}
	if err == nil {
		err = d.root.Mkdir("data", 0o755)
	}
	if err != nil {
		return fmt.Errorf("bundle: %w", err)
	}
	return nil
}

func (d *DirectoryWriter) checkMark() error {
	other := sluice.Errorf(sluice.Conflict, "the directory has other files or another export; choose another one")
	text, err := readFile(d.root, ManifestFile+partial, maxManifest, nil)
	if err != nil {
		return other
	}
	var mark Header
	if json.Unmarshal(text, &mark) != nil || mark.SourceID != d.start.SourceID || mark.Incarnation != d.start.Incarnation ||
		mark.Scope != d.depth.Scope() || mark.Since != d.start.Since {
		return other
	}
	if err := d.root.Mkdir("data", 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("bundle: %w", err)
	}
	return nil
}

// resume takes over the files of entries that are complete with their data, up to the first that is not.
func (d *DirectoryWriter) resume() error {
	for n := 1; ; n++ {
		text, err := readFile(d.root, entriesName(n), maxFile, nil)
		if err != nil {
			return nil //nolint:nilerr // it is written again
		}
		list, data, err := d.restore(text)
		if err != nil {
			return nil //nolint:nilerr // it is written again
		}
		for _, w := range list {
			if err := addTo(d.tally, w); err != nil {
				return err
			}
		}
		maps.Copy(d.data, data)
		d.entries = append(d.entries, fileOf(entriesName(n), text))
	}
}

// restore parses a file of entries, and checks their data.
func (d *DirectoryWriter) restore(text []byte) ([]*wire, map[string]file, error) {
	var list []*wire
	data := map[string]file{}
	last := d.tally.last
	err := eachLine(text, func(line []byte) error {
		w, err := parseEntry(bytes.Clone(line), d.depth)
		if err != nil {
			return err
		}
		if w.seq <= last {
			return invalid("entry %d is out of order", w.seq)
		}
		last = w.seq
		list = append(list, w)
		sum, ok := isDataName(w.file)
		if !ok {
			return nil
		}
		content, err := readFile(d.root, w.file, maxFile, nil)
		if err != nil {
			return err
		}
		data[w.file] = fileOf(w.file, content)
		if data[w.file].SHA256 != sum {
			return invalid("%s is damaged", w.file)
		}
		return nil
	})
	return list, data, err
}

// sweep removes files that were not finished, and data that no entry refers to. Code Conflict if there are
// others.
func (d *DirectoryWriter) sweep() error {
	return d.walk(func(name string) error {
		_, known := d.data[name]
		finished, unfinished := strings.CutSuffix(name, partial)
		_, isData := isDataName(finished)
		isEntries := slices.ContainsFunc(d.entries, func(f file) bool { return f.Name == name })
		switch {
		case known, isEntries, name == ManifestFile+partial, name == sumsFile:
			return nil
		case isData, strings.HasPrefix(name, "entries-"), unfinished && finished == sumsFile:
			return d.root.Remove(name) //nolint:wrapcheck // walk does
		}
		return sluice.Errorf(sluice.Conflict, "the directory has other files, such as %.200q; choose another one", name)
	})
}

// walk calls f with the name of each file.
func (d *DirectoryWriter) walk(f func(name string) error) error {
	err := fs.WalkDir(d.root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		return f(name)
	})
	return wrapped(err)
}

// Append adds an entry; sequences ascend. Codes: Unprocessable; TooLarge if the bundle has too many
// files: export the rest into another one.
func (d *DirectoryWriter) Append(e Entry) error {
	w, err := toWire(&e, d.depth)
	if err != nil {
		return err
	}
	if w.seq <= d.tally.last {
		return invalid("entry %d is out of order: it comes after %d", w.seq, d.tally.last)
	}
	if w.base64 || len(w.content) > maxInline {
		if err := d.putData(w); err != nil {
			return err
		}
	}
	line := append(w.append(nil), '\n')
	if len(line) > maxFile {
		return sluice.Errorf(sluice.TooLarge, "bundle: entry %d is larger than %d bytes", w.seq, maxFile)
	}
	if len(d.lines)+len(line) > entriesSize {
		if err := d.flush(); err != nil {
			return err
		}
	}
	d.lines = append(d.lines, line...)
	return addTo(d.tally, w)
}

// putData writes the content of an entry into a file of its own.
func (d *DirectoryWriter) putData(w *wire) error {
	f := fileOf("", w.content)
	f.Name = dataName(f.SHA256, w.contentType)
	w.text, w.base64, w.file = false, false, f.Name
	if _, ok := d.data[f.Name]; ok {
		return nil
	}
	if len(d.data)+len(d.entries)+2 > maxFiles {
		return sluice.Errorf(sluice.TooLarge, "bundle: more than %d files; export the entries from %d on into another bundle", maxFiles, w.seq)
	}
	if err := writeFile(d.root, f.Name, w.content); err != nil {
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
	if err := writeFile(d.root, f.Name, d.lines); err != nil {
		return err
	}
	d.entries, d.lines = append(d.entries, f), d.lines[:0]
	return nil
}

// Seal completes the header as DocumentWriter.Seal does, signs it with the digests of the files, and writes
// the manifest as the last file. It returns the header.
func (d *DirectoryWriter) Seal(h Header, key ed25519.PrivateKey) (Header, error) {
	if h.SourceID != d.start.SourceID || h.Incarnation != d.start.Incarnation {
		return Header{}, invalid("the header is of another source than the directory")
	}
	if err := d.flush(); err != nil {
		return Header{}, err
	}
	h, err := seal(h, d.depth, d.tally, key)
	if err != nil {
		return Header{}, err
	}
	m := &manifest{Signed: Signed{Header: h}, files: slices.Collect(maps.Values(d.data))}
	m.files = append(m.files, d.entries...)
	slices.SortFunc(m.files, func(a, b file) int { return strings.Compare(a.Name, b.Name) })
	if err := m.seal(); err != nil {
		return Header{}, err
	}
	m.signature = ed25519.Sign(key, m.message)
	text, err := m.text()
	if err != nil {
		return Header{}, err
	}
	return h, m.finish(d.root, text)
}
