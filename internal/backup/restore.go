package backup

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sluice-io/sluice/streams"
)

// Open checks that every file of a backup is present, complete and unchanged, and returns the
// manifest. It calls progress, unless that is nil, with the number of bytes read.
func Open(ctx context.Context, dir string, progress func(done, total int64)) (Manifest, error) {
	m, err := readManifest(dir)
	if err != nil {
		return Manifest{}, err
	}
	count := &counter{tell: progress, total: m.bytes()}
	for _, s := range m.Streams {
		if err := s.check(ctx, streamFile(dir, s.Name), count); err != nil {
			return Manifest{}, err
		}
	}
	for _, key := range m.Keys {
		if err := key.check(ctx, filepath.Join(dir, keysDir, key.Name), io.Discard); err != nil {
			return Manifest{}, err
		}
	}
	return m, nil
}

// readManifest returns a manifest after a check that its names are those of streams of Sluice, and
// of files without a directory.
func readManifest(dir string) (Manifest, error) {
	text, err := os.ReadFile(filepath.Join(filepath.Clean(dir), ManifestFile))
	if errors.Is(err, fs.ErrNotExist) {
		return Manifest{}, fmt.Errorf("%s is not a backup, or is incomplete: it has no %s", dir, ManifestFile)
	}
	if err != nil {
		return Manifest{}, fmt.Errorf("backup: %w", err)
	}
	var m Manifest
	if err := json.Unmarshal(text, &m); err != nil {
		return Manifest{}, fmt.Errorf("backup: %s is damaged: %w", ManifestFile, err)
	}
	if m.Format != format {
		return Manifest{}, fmt.Errorf("backup: format %d is unknown: this sluice reads format %d", m.Format, format)
	}
	if err := streams.CheckPrefix(m.Prefix); err != nil {
		return Manifest{}, fmt.Errorf("backup: %w", err)
	}
	for _, s := range m.Streams {
		if !streams.Prefixed(m.Prefix).Ours(s.Name) || s.Name != filepath.Base(s.Name) {
			return Manifest{}, fmt.Errorf("backup: %q is not a stream of Sluice", s.Name)
		}
	}
	for _, key := range m.Keys {
		if key.Name != filepath.Base(key.Name) || key.Name == ".." {
			return Manifest{}, fmt.Errorf("backup: %q is not a file name", key.Name)
		}
	}
	return m, nil
}

// bytes returns the size of all streams.
func (m Manifest) bytes() (sum int64) {
	for _, s := range m.Streams {
		sum += s.Bytes
	}
	return sum
}

// check returns an error unless a file has the size and digest of the manifest.
func (f File) check(ctx context.Context, path string, count io.Writer) error {
	file, err := os.Open(filepath.Clean(path))
	if err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	defer func() { _ = file.Close() }() // it was only read
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(sum, count), bounded{ctx, file})
	if err != nil {
		return fmt.Errorf("backup: %s: %w", path, err)
	}
	if n != f.Bytes || hex.EncodeToString(sum.Sum(nil)) != f.SHA256 {
		return fmt.Errorf("backup: %s is damaged: it differs from its description in %s", path, ManifestFile)
	}
	return nil
}

// RestoreKeys copies the server's own files into a data directory. It returns an error if a
// different file exists there.
func (m Manifest) RestoreKeys(dir, data string) error {
	to, err := os.OpenRoot(data)
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	defer func() { _ = to.Close() }() // only a handle
	for _, key := range m.Keys {
		content, err := os.ReadFile(filepath.Join(filepath.Clean(dir), keysDir, key.Name))
		if err != nil {
			return fmt.Errorf("restore: %w", err)
		}
		switch old, err := to.ReadFile(key.Name); {
		case err == nil && bytes.Equal(old, content):
			continue
		case err == nil:
			return fmt.Errorf("%s differs in %s: restore into an empty data directory", key.Name, data)
		case !errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("restore: %w", err)
		}
		if err := to.WriteFile(key.Name, content, 0o600); err != nil {
			return fmt.Errorf("restore: %w", err)
		}
	}
	return nil
}

// Vacant returns an error unless the store has no stream of Sluice and no server.
func Vacant(ctx context.Context, store Store) error {
	if err := unserved(ctx, store); err != nil {
		return err
	}
	names, err := store.StoredStreams(ctx)
	if err != nil {
		return err
	}
	if len(names) > 0 {
		return fmt.Errorf("the store already has %d streams of Sluice, such as %s: restore into an empty one", len(names), names[0])
	}
	return nil
}

// Restore creates the streams of a backup in a store that is Vacant, and compares each with the
// manifest. An interrupted restore leaves a store that is not vacant; empty it before the next one.
func (m Manifest) Restore(ctx context.Context, store Store, dir string, opts Options) error {
	count := &counter{tell: opts.Progress, total: m.bytes()}
	for _, s := range m.Streams {
		if err := restoreStream(ctx, store, dir, s, count); err != nil {
			return err
		}
	}
	return nil
}

func restoreStream(ctx context.Context, store Store, dir string, s Stream, count io.Writer) error {
	file, err := os.Open(filepath.Clean(streamFile(dir, s.Name)))
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	defer func() { _ = file.Close() }() // it was only read
	state, err := store.RestoreStream(ctx, s.Name, s.Snapshot, io.TeeReader(bounded{ctx, file}, count))
	if err != nil {
		return err
	}
	if !s.Holds(state) {
		return fmt.Errorf("restore %s: the stream holds %+v, the backup %+v", s.Name, state, s.State)
	}
	return nil
}

// bounded is a reader that ends with a context.
type bounded struct {
	ctx  context.Context //nolint:containedctx // Read has no parameter for it
	from io.Reader
}

func (b bounded) Read(p []byte) (int, error) {
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	return b.from.Read(p)
}
