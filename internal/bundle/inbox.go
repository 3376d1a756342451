package bundle

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"slices"
)

// Inbox is a directory into which the files of a manifest arrive. A file has its final name only if
// its content matches the manifest; before, its name ends in .part. An inbox is for one goroutine,
// and its directory for one process at a time.
type Inbox struct {
	*Manifest

	root *os.Root
	has  map[string]bool
}

// OpenInbox opens a directory for the files of a manifest. It keeps files that arrived there before
// and match the manifest, and removes all others. It creates the directory and data below it. It
// reads and hashes every file that is there, so it takes time in proportion to the bytes that
// arrived; if ctx ends, it stops between two files. The caller must close the inbox.
func (m *Manifest) OpenInbox(ctx context.Context, path string) (*Inbox, error) {
	if err := os.MkdirAll(path+"/data", 0o700); err != nil {
		return nil, fmt.Errorf("bundle: %w", err)
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, fmt.Errorf("bundle: %w", err)
	}
	b := &Inbox{m, root, map[string]bool{}}
	if err := b.sweep(ctx); err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return b, nil
}

// sweep keeps the files that are intact, and removes all others.
func (b *Inbox) sweep(ctx context.Context) error {
	var buffer []byte
	for _, dir := range []string{"", "data/"} {
		names, err := readDir(b.root, "./"+dir)
		if err != nil {
			return err
		}
		for _, name := range names {
			if name = dir + name; name == "data" {
				continue
			}
			if err := ctx.Err(); err != nil {
				return fmt.Errorf("bundle: %w", err)
			}
			if buffer, err = b.keep(name, buffer); err != nil {
				return err
			}
		}
	}
	return nil
}

// keep keeps a file that matches the manifest, and removes any other. It returns the buffer for the
// next file.
func (b *Inbox) keep(name string, buffer []byte) ([]byte, error) {
	if f := b.declared(name); f != nil {
		if content, damaged := readDeclared(b.root, f, buffer); damaged == nil {
			b.has[name] = true
			return content, nil
		}
	}
	if err := b.root.RemoveAll(name); err != nil {
		return nil, fmt.Errorf("bundle: %w", err)
	}
	return buffer, nil
}

func readDir(root *os.Root, name string) ([]string, error) {
	f, err := root.Open(name)
	if err != nil {
		return nil, fmt.Errorf("bundle: %w", err)
	}
	names, err := f.Readdirnames(-1)
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("bundle: %w", err)
	}
	return names, nil
}

// declared returns the description of a file of the directory; nil if the directory has no file
// with that name.
func (m *Manifest) declared(name string) *file {
	switch name {
	case ManifestFile:
		f := fileOf(name, m.text)
		return &f
	case sumsFile:
		f := fileOf(name, m.sums())
		return &f
	}
	return m.named[name]
}

// Missing returns the names of the files that have not arrived, and their total size in bytes.
// SHA256SUMS is first, then the order of the manifest. The manifest is never missing, because every
// request brings it.
func (b *Inbox) Missing() (names []string, size int64) {
	for _, name := range slices.Concat([]string{sumsFile}, b.names()) {
		if !b.has[name] {
			names, size = append(names, name), size+b.declared(name).Size
		}
	}
	return names, size
}

func (m *Manifest) names() []string {
	names := make([]string, len(m.files))
	for i := range m.files {
		names[i] = m.files[i].Name
	}
	return names
}

// Begun reports whether a file besides the manifest has arrived.
func (b *Inbox) Begun() bool {
	for name := range b.has {
		if name != ManifestFile { // which comes with every request
			return true
		}
	}
	return false
}

// Take stores the files of a stream. Code Unprocessable for a file that differs from the manifest,
// is incomplete or occurs twice. It ends at the end of the stream, however many files that brought:
// call Missing afterwards. Files that are complete already are skipped, so a repeated request costs
// only its transfer. After an error the files that arrived before stay.
func (b *Inbox) Take(ctx context.Context, in *Arriving) error {
	if err := b.store(ManifestFile, bytes.NewReader(b.text)); err != nil {
		return err
	}
	taken := map[string]bool{ManifestFile: true}
	for {
		head, err := next(in.tar)
		if head == nil || err != nil {
			return err
		}
		f := b.declared(head.Name)
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("bundle: %w", ctx.Err())
		case f == nil:
			return invalid("%.200q is not in the manifest", head.Name)
		case taken[head.Name]:
			return invalid("%s is there twice", head.Name)
		case head.Size != f.Size:
			return invalid("%s has %d bytes, and the manifest declares %d", head.Name, head.Size, f.Size)
		}
		taken[head.Name] = true
		if b.has[head.Name] {
			continue
		}
		if err := b.store(head.Name, in.tar); err != nil {
			return err
		}
	}
}

// store writes a file under a partial name, and renames it if it matches the manifest. It does not
// sync the file, because the file is verified again before its use.
func (b *Inbox) store(name string, content io.Reader) error {
	f, err := b.root.OpenFile(name+partial, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("bundle: %w", err)
	}
	sum := sha256.New()
	_, err = io.Copy(io.MultiWriter(f, sum), content)
	if err = errors.Join(err, f.Close()); err == nil && !b.declared(name).is(sum) {
		err = invalid("%s is not the file that the manifest declares", name)
	}
	if err == nil {
		err = b.root.Rename(name+partial, name)
	}
	if err != nil {
		return errors.Join(wrapped(err), b.root.Remove(name+partial))
	}
	b.has[name] = true
	return nil
}

func (f *file) is(sum hash.Hash) bool { return hex.EncodeToString(sum.Sum(nil)) == f.SHA256 } // not a secret: of a file

// Close ends the arrival; the files stay.
func (b *Inbox) Close() error {
	if err := b.root.Close(); err != nil {
		return fmt.Errorf("bundle: %w", err)
	}
	return nil
}
