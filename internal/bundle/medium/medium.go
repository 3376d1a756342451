// Package medium reads and writes the bundles in a directory that is carried between servers, such
// as a USB stick. It knows their names, their order, and where the next export begins. It verifies
// no signatures, which the importing server does.
package medium

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gofrs/flock"

	"github.com/sluice-io/sluice/internal/bundle"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Bundle is a bundle on a medium, as it describes itself.
type Bundle struct {
	Path      string // of the document, or of the directory
	Directory bool
	Header    bundle.Header
	Digest    string
	Size      int64 // in bytes
}

// Heartbeat reports whether the bundle covers no range of the log.
func (b *Bundle) Heartbeat() bool { return b.Header.Since == b.Header.Through }

// Partial is the suffix of the name of an incomplete export. Scan ignores such names.
const Partial = ".part"

const (
	receiptEnd   = ".receipt.json"
	heartbeatEnd = ".heartbeat.json"
)

// Name returns the name of the bundle of a range of a namespace's log, as a document or a
// directory. Zeros pad the sequences, so that names sort as the bundles do:
//
//	shop-0000000000000000-0000000000000420.json   a document
//	shop-0000000000000420-0000000000000977        a directory
//	shop.heartbeat.json                           replaced by each heartbeat
func Name(namespace string, h *bundle.Header, directory bool) string {
	end := ".json"
	switch {
	case h.Since == h.Through:
		return namespace + heartbeatEnd
	case directory:
		end = ""
	}
	return fmt.Sprintf("%s-%016d-%016d%s", namespace, h.Since, h.Through, end)
}

// ReceiptName returns the name of the receipt of the bundles of a namespace. A name that is no
// valid namespace becomes "bundle", because it comes from a bundle that is not verified and would
// be part of a path.
func ReceiptName(namespace string) string {
	if sluice.CheckNamespaceName(namespace) != nil {
		namespace = "bundle"
	}
	return namespace + receiptEnd
}

// maxFile limits the size of a file that may be a document.
const maxFile = bundle.MaxDocument

// Scan returns the bundles at a path, which is a bundle or a directory with bundles, in the order
// in which they must be imported. It ignores other files in a directory. It reads every document of
// at most 64 MiB whole, to find its header. In a directory, a damaged JSON file, or one of another
// format, is no bundle and no error.
func Scan(path string) ([]Bundle, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("read bundles: %w", err)
	}
	if !info.IsDir() || exists(filepath.Join(path, bundle.ManifestFile)) {
		b, ok, err := read(path)
		if err == nil && !ok {
			err = fmt.Errorf("%s is no bundle", path)
		}
		return []Bundle{b}, err
	}
	names, err := os.ReadDir(path)
	if err != nil {
		return nil, fmt.Errorf("read bundles: %w", err)
	}
	var found []Bundle
	for _, name := range names {
		b, ok, err := read(filepath.Join(path, name.Name()))
		if err != nil {
			return nil, err
		}
		if ok {
			found = append(found, b)
		}
	}
	slices.SortStableFunc(found, inOrder)
	return found, nil
}

func inOrder(a, b Bundle) int {
	return cmp.Or(cmp.Compare(a.Header.SourceID, b.Header.SourceID), cmp.Compare(a.Header.Since, b.Header.Since),
		cmp.Compare(a.Header.Through, b.Header.Through), a.Header.ExportedAt.Compare(b.Header.ExportedAt))
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// read reads the header of a bundle, and reports whether it is one. read does not verify: all
// fields are as the bundle states them.
func read(path string) (b Bundle, ok bool, err error) {
	b = Bundle{Path: path}
	info, err := os.Stat(path)
	if err != nil {
		return b, false, fmt.Errorf("read bundle: %w", err)
	}
	file := path
	switch {
	case strings.HasSuffix(path, Partial):
		return b, false, nil
	case info.IsDir():
		b.Directory, file = true, filepath.Join(path, bundle.ManifestFile)
	case !info.Mode().IsRegular() || info.Size() > maxFile || !strings.HasSuffix(path, ".json"):
		return b, false, nil
	}
	text, err := os.ReadFile(filepath.Clean(file))
	if b.Directory && errors.Is(err, fs.ErrNotExist) {
		return b, false, nil
	}
	if err != nil {
		return b, false, fmt.Errorf("read bundle: %w", err)
	}
	var is struct {
		bundle.Header

		Files []struct {
			Size int64 `json:"size"`
		} `json:"files"`
	}
	if notJSON := json.Unmarshal(text, &is); notJSON != nil || is.Format != bundle.Format {
		return b, false, nil //nolint:nilerr // another file
	}
	b.Header, b.Size = is.Header, int64(len(text))
	for _, f := range is.Files {
		b.Size += f.Size
	}
	b.Digest, err = is.Digest()
	return b, err == nil, err
}

// Place is where an export ended.
type Place struct {
	Source, Incarnation string
	Depth               sluice.Depth
	Through             uint64 // the last exported sequence
	Digest              string // of the bundle that goes through it; "" if there is none
	Directory           bool   // the last bundle is a directory
}

// Last returns where the exports of a namespace ended: at its last bundle in a directory, or at the
// receipt there, whichever is further. It returns nil if there is neither, or no directory. Neither
// signatures nor contents are verified; a wrong place leads to a gap that the importer refuses. A
// receipt may be further than the bundles that are still there. Errors have no code: the command
// shows them as they are.
func Last(dir, namespace string) (*Place, error) {
	if !exists(dir) {
		return nil, nil //nolint:nilnil // the first export
	}
	found, err := Scan(dir)
	if err != nil {
		return nil, err
	}
	var last *Place
	for i := range found {
		h := &found[i].Header
		if h.SourceName != namespace {
			continue
		}
		p := Place{Source: h.SourceID, Incarnation: h.Incarnation, Depth: h.Depth(), Through: h.Through, Digest: found[i].Digest, Directory: found[i].Directory}
		if found[i].Heartbeat() {
			p.Digest = h.Previous
		}
		if last, err = later(last, &p); err != nil {
			return nil, err
		}
	}
	text, err := os.ReadFile(filepath.Join(filepath.Clean(dir), ReceiptName(namespace)))
	if errors.Is(err, fs.ErrNotExist) {
		return last, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read receipt: %w", err)
	}
	var r bundle.Receipt
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, fmt.Errorf("%s is no receipt: %w", ReceiptName(namespace), err)
	}
	depth, err := sluice.ParseDepth(r.Scope)
	if err != nil {
		return nil, fmt.Errorf("%s is no receipt: %w", ReceiptName(namespace), err)
	}
	return later(last, &Place{Source: r.SourceID, Incarnation: r.Incarnation, Depth: depth, Through: r.Through, Digest: r.Bundle})
}

// later returns the further one of two places of the same chain.
func later(a, b *Place) (*Place, error) {
	switch {
	case a == nil:
		return b, nil
	case a.Source != b.Source, a.Incarnation != b.Incarnation, a.Depth != b.Depth:
		return nil, errors.New("the directory has bundles of different sources, logs or depths under one name: export into another directory")
	case a.Through == b.Through && a.Digest != b.Digest: // not a secret: of a bundle
		return nil, fmt.Errorf("the directory has two bundles through sequence %d, %s and %s: export into another directory", a.Through, a.Digest, b.Digest)
	case b.Through > a.Through:
		return b, nil
	}
	a.Directory = a.Directory || b.Directory
	return a, nil
}

// Lock locks a medium for the exports of one process until unlock, because two exports at once
// would write bundles of the same range under the same name. It leaves no lock file on the medium.
// It does not wait. The kernel frees the lock if the process dies.
func Lock(dir string) (unlock func() error, err error) {
	lock := flock.New(dir, flock.SetFlag(os.O_RDONLY))
	switch ok, err := lock.TryLock(); {
	case errors.Is(err, errors.ErrUnsupported):
		return func() error { return nil }, nil // such as some network file systems
	case err != nil:
		return nil, fmt.Errorf("%s: %w", dir, err)
	case !ok:
		return nil, fmt.Errorf("%s: another process exports into it; wait until it has ended", dir)
	}
	return lock.Unlock, nil
}

// Write writes a file of a medium atomically: under a partial name until the content is synced to
// the disk. After an error it leaves nothing behind.
func Write(path string, content []byte) error {
	part := filepath.Clean(path + Partial)
	f, err := os.OpenFile(part, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644) //nolint:gosec // couriers read it
	if err != nil {
		return fmt.Errorf("write bundle: %w", err)
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(part, path)
	}
	if err != nil {
		return fmt.Errorf("write bundle: %w", errors.Join(err, os.Remove(part)))
	}
	return nil
}
