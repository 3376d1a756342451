package bundle

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Directory is a bundle in a directory, and is not verified yet.
type Directory struct {
	*Manifest

	root *os.Root
}

// OpenDirectory reads the manifest of a directory and checks its form. Codes: Unprocessable,
// BundleSignatureInvalid if the signature is none.
func OpenDirectory(path string) (*Directory, error) {
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, fmt.Errorf("bundle: %w", err)
	}
	d, err := openManifest(root)
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return d, nil
}

func openManifest(root *os.Root) (*Directory, error) {
	text, err := readFile(root, ManifestFile, maxManifest, nil)
	if err != nil {
		return nil, err
	}
	m, err := ParseManifest(text)
	if err != nil {
		return nil, err
	}
	return &Directory{m, root}, nil
}

// Close ends the reading, of its content, too.
func (d *Directory) Close() error {
	if err := d.root.Close(); err != nil {
		return fmt.Errorf("bundle: %w", err)
	}
	return nil
}

// Verify returns the content if a trusted key of the source signed the manifest and the directory has
// exactly the files that it declares, byte for byte, with the entries that its header declares. It
// reads all of them. Codes: UnknownKey, BundleSignatureInvalid, Unprocessable with the name of the file.
func (d *Directory) Verify(ctx context.Context, trust Trust) (*Content, error) {
	if err := d.verify(trust); err != nil {
		return nil, err
	}
	if err := d.Check(); err != nil {
		return nil, err
	}
	t, depth := newTally(d.Header.Since), d.Header.Depth()
	used := map[string]bool{}
	err := d.each(ctx, func(w *wire, _ []byte) error {
		used[w.file] = true
		if _, err := w.entry(depth, nil); err != nil {
			return err
		}
		return addTo(t, w)
	})
	if err != nil {
		return nil, err
	}
	for name := range d.named {
		if _, ok := isDataName(name); ok && !used[name] {
			return nil, invalid("no entry refers to %s", name)
		}
	}
	if err := t.match(&d.Header); err != nil {
		return nil, err
	}
	return &Content{Header: d.Header, Digest: d.digest, each: d.each}, nil
}

// addTo counts an entry of a directory.
func addTo(t *tally, w *wire) error {
	if w.file == "" {
		return t.addInline(w)
	}
	name, _ := isDataName(w.file)
	sum, err := hex.DecodeString(name)
	if err != nil || len(sum) != sha256.Size {
		return invalid("entry %d: content_file %.200q is no name of a file in a bundle", w.seq, w.file)
	}
	return t.add(w, sum)
}

// Check returns an error (Unprocessable) unless the directory has exactly the declared files, all of them regular,
// and a list of them. Their content is not read.
func (d *Directory) Check() error {
	found := 0
	err := fs.WalkDir(d.root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		_, declared := d.named[name]
		switch {
		case entry.IsDir() && (name == "." || name == "data"):
		case !entry.Type().IsRegular():
			return invalid("%.200q is no regular file", name)
		case declared:
			found++
		case name != ManifestFile && name != sumsFile && name != ReceiptFile:
			return invalid("%.200q is not in the manifest", name)
		}
		return nil
	})
	if err != nil {
		return wrapped(err)
	}
	if found < len(d.files) {
		return invalid("%d of %d files are missing", len(d.files)-found, len(d.files))
	}
	want := d.sums()
	text, err := readFile(d.root, sumsFile, int64(len(want)), nil)
	if err != nil {
		return err
	}
	if !bytes.Equal(text, want) {
		return invalid("%s does not list the files of the manifest", sumsFile)
	}
	return nil
}

// each calls yield with each entry and its content. It reads each file at once, and uses nothing of
// a file that is not the declared one; content is valid during the call.
func (d *Directory) each(ctx context.Context, yield func(*wire, []byte) error) error {
	var lines, data []byte
	one := func(line []byte) (err error) {
		w, err := parseEntry(line, d.Header.Depth())
		if err != nil {
			return err
		}
		if w.base64 || len(w.content) > maxInline {
			return invalid("entry %d: content above %d bytes or in base64 belongs into a file", w.seq, maxInline)
		}
		if w.file == "" {
			return yield(w, w.content)
		}
		if data, err = d.content(w, data); err != nil {
			return err
		}
		return yield(w, data)
	}
	for n := 1; d.named[entriesName(n)] != nil; n++ {
		text, err := d.lines(ctx, n, lines)
		if err == nil {
			err = eachLine(text, one)
		}
		if err != nil {
			return err
		}
		lines = text
	}
	return nil
}

// lines reads the nth file of entries into a buffer.
func (d *Directory) lines(ctx context.Context, n int, buffer []byte) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("bundle: %w", err)
	}
	f := d.named[entriesName(n)]
	text, err := readDeclared(d.root, f, buffer)
	if err == nil && f.Size > entriesSize && bytes.IndexByte(text, '\n') < len(text)-1 {
		err = invalid("%s is larger than %d bytes and has more than one entry", f.Name, entriesSize)
	}
	return text, err
}

// content reads the content of an entry that has it in a file into a buffer.
func (d *Directory) content(w *wire, buffer []byte) ([]byte, error) {
	f := d.named[w.file]
	if _, ok := isDataName(w.file); f == nil || !ok {
		return nil, invalid("entry %d: content_file %.200q is not in the manifest", w.seq, w.file)
	}
	return readDeclared(d.root, f, buffer)
}

// eachLine calls f with each line, without its end.
func eachLine(text []byte, f func([]byte) error) error {
	for len(text) > 0 {
		end := bytes.IndexByte(text, '\n')
		if end < 0 {
			return invalid("a file of entries ends within a line")
		}
		if err := f(text[:end]); err != nil {
			return err
		}
		text = text[end+1:]
	}
	return nil
}

// wrapped returns an error of the file system with its context, and one with a code as it is.
func wrapped(err error) error {
	if _, ok := errors.AsType[*sluice.Error](err); ok || err == nil {
		return err
	}
	return fmt.Errorf("bundle: %w", err)
}
