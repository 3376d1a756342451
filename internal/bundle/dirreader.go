package bundle

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Directory is a bundle in a directory that is not verified yet. Its files are opened through an
// [os.Root], so no name or link in it leads out of it. Other processes may change the files at any
// time; each is compared with its digest whenever it is read, also after Verify.
type Directory struct {
	*Manifest

	root *os.Root
}

// OpenDirectory reads the manifest of a directory and checks its form. The caller must close the
// directory. Codes: Unprocessable; BundleSignatureInvalid if the signature is malformed.
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

// Close closes the directory. Its Content cannot be read afterwards.
func (d *Directory) Close() error {
	if err := d.root.Close(); err != nil {
		return fmt.Errorf("bundle: %w", err)
	}
	return nil
}

// Verify returns the content if a trusted key of the source signed the manifest and the directory
// has exactly the files that it declares, byte for byte, with the entries that its header declares.
// It reads all files, in bounded memory. Codes: UnknownKey, BundleSignatureInvalid, Unprocessable
// with the name of the file. Verify reads and hashes each file once, and a data file once for each
// entry that refers to it. If ctx ends, it stops before the next file of entries. The content reads
// the files again, so close the directory only after the last entry.
func (d *Directory) Verify(ctx context.Context, trust Trust) (*Content, error) {
	if err := d.verify(trust); err != nil {
		return nil, err
	}
	if err := d.Check(); err != nil {
		return nil, err
	}
	t, depth := newTally(d.Header.Since), d.Header.Depth()
	// Three buffers: two files that are parsed ahead and one in use. Entries may share them,
	// because verifying keeps no entry.
	verifying := walk{dir: d, ahead: 2, spare: make(chan []byte, 3), check: func(w *wire) error {
		w.sum = w.inlineSum()
		_, err := w.entry(depth, nil)
		return err
	}}
	used := map[string]bool{}
	err := verifying.each(ctx, func(w *wire, _ []byte) error {
		used[w.file] = true
		return addTo(t, w)
	})
	if err != nil {
		return nil, err
	}
	// A file without an entry would be signed and carried, but never read: a covert channel
	// (S3-74).
	for name := range d.named {
		if _, ok := isDataName(name); ok && !used[name] {
			return nil, invalid("no entry refers to %s", name)
		}
	}
	if err := t.match(&d.Header); err != nil {
		return nil, err
	}
	// No spare buffers: the caller of Entries may keep the content.
	reading := walk{dir: d, ahead: 1, check: func(*wire) error { return nil }}
	return &Content{Header: d.Header, Digest: d.digest, each: reading.each}, nil
}

// addTo counts an entry of a directory. It takes the digest from the file's name, which checkFiles
// has compared with the declared digest, so the content is not hashed twice.
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

// Check returns an error (Unprocessable) unless the directory has exactly the declared files, all
// of them regular, and a correct SHA256SUMS. It does not read the content of the declared files.
// The receipt of an importer may be there, too.
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

// wrapped adds context to an error of the file system, and returns an error with a code unchanged.
func wrapped(err error) error {
	if _, ok := errors.AsType[*sluice.Error](err); ok || err == nil {
		return err
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return broken(err)
	}
	return fmt.Errorf("bundle: %w", err)
}
