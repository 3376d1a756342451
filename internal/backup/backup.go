// Package backup writes the whole store of a Sluice to a directory, and restores such a directory
// into an empty store. No server may use the store meanwhile, so that records, logs and consumer
// positions are consistent.
//
// The directory contains a snapshot of each stream, as JetStream creates it
// (streams/<name>.tar.s2), the server's own files (keys/), and manifest.json, which is written
// last: a backup without it is incomplete. The manifest has the size and SHA-256 of every file, and
// the content of each stream.
package backup

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sluice-io/sluice/internal/natsstore/streamstore"
)

// ManifestFile completes a backup.
const ManifestFile = "manifest.json"

const (
	format     = 1
	streamsDir = "streams"
	keysDir    = "keys"
	suffix     = ".tar.s2"
)

// Store reads and restores streams.
type Store interface {
	// StoredStreams returns the names of all streams of Sluice.
	StoredStreams(ctx context.Context) ([]string, error)
	// Replicas returns the servers that serve the store.
	Replicas(ctx context.Context) ([]string, error)
	// SnapshotStream writes a stream to data.
	SnapshotStream(ctx context.Context, name string, data io.Writer) (streamstore.Snapshot, error)
	// RestoreStream creates a stream from a snapshot, and returns its content.
	RestoreStream(ctx context.Context, name string, from streamstore.Snapshot, data io.Reader) (streamstore.StreamState, error)
}

// Manifest lists the content of a backup.
type Manifest struct {
	Format    int       `json:"format"` // 1
	CreatedAt time.Time `json:"created_at"`
	Version   string    `json:"version"`          // of the sluice binary
	Prefix    string    `json:"prefix,omitempty"` // of the names of the streams
	Streams   []Stream  `json:"streams"`
	Keys      []File    `json:"keys"` // the server's own files, such as secrets.key
}

// Stream is a stream of a backup.
type Stream struct {
	File
	streamstore.Snapshot
}

// File is a file of a backup.
type File struct {
	Name   string `json:"name"` // of the stream, or of the file in the data directory
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"` // in hex
}

// Options are the settings of a backup or a restore.
type Options struct {
	Version  string
	Prefix   string                  // of the names of the streams
	Data     string                  // the data directory
	Keys     []string                // names of the files in Data to back up; missing ones are skipped
	Now      time.Time               // time of the backup
	Progress func(done, total int64) // bytes, total -1 if unknown; nil: no callback
}

// Write writes a backup into a directory that is empty or does not exist. It returns an error if a
// server serves the store.
func Write(ctx context.Context, store Store, dir string, opts Options) (Manifest, error) {
	if err := unserved(ctx, store); err != nil {
		return Manifest{}, err
	}
	if err := makeEmpty(dir); err != nil {
		return Manifest{}, err
	}
	m := Manifest{Format: format, CreatedAt: opts.Now.UTC(), Version: opts.Version, Prefix: opts.Prefix, Streams: []Stream{}, Keys: []File{}}
	names, err := store.StoredStreams(ctx)
	if err != nil {
		return Manifest{}, err
	}
	if len(names) == 0 {
		return Manifest{}, errors.New("nothing to back up: the store has no streams of Sluice")
	}
	slices.Sort(names)
	count := &counter{tell: opts.Progress, total: -1}
	for _, name := range names {
		s, err := writeStream(ctx, store, dir, name, count)
		if err != nil {
			return Manifest{}, err
		}
		m.Streams = append(m.Streams, s)
	}
	for _, name := range opts.Keys {
		file, err := copyFile(filepath.Join(opts.Data, name), filepath.Join(dir, keysDir, name), name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return Manifest{}, err
		}
		m.Keys = append(m.Keys, file)
	}
	if err := unserved(ctx, store); err != nil { // a server may have started meanwhile
		return Manifest{}, err
	}
	return m, m.write(dir)
}

// unserved returns an error if a server serves the store, because a backup would have only parts of
// concurrent changes.
func unserved(ctx context.Context, store Store) error {
	replicas, err := store.Replicas(ctx)
	if err != nil {
		return err
	}
	if len(replicas) > 0 {
		return fmt.Errorf("%d servers use this store (%s): stop them first; a killed server counts for 15 s", len(replicas), strings.Join(replicas, ", "))
	}
	return nil
}

// makeEmpty creates a directory that only its owner can read, or accepts an empty one.
func makeEmpty(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	if len(entries) > 0 {
		return fmt.Errorf("directory %s is not empty: name a new one", dir)
	}
	for _, sub := range []string{streamsDir, keysDir} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o700); err != nil {
			return fmt.Errorf("backup: %w", err)
		}
	}
	return nil
}

func writeStream(ctx context.Context, store Store, dir, name string, count *counter) (Stream, error) {
	file, err := create(streamFile(dir, name))
	if err != nil {
		return Stream{}, err
	}
	snapshot, err := store.SnapshotStream(ctx, name, io.MultiWriter(file, count))
	if err := errors.Join(err, file.finish()); err != nil {
		return Stream{}, err
	}
	return Stream{File: file.as(name), Snapshot: snapshot}, nil
}

func streamFile(dir, name string) string { return filepath.Join(dir, streamsDir, name+suffix) }

func copyFile(from, to, name string) (File, error) {
	in, err := os.Open(filepath.Clean(from))
	if err != nil {
		return File{}, fmt.Errorf("backup: %w", err)
	}
	defer func() { _ = in.Close() }() // it was only read
	out, err := create(to)
	if err != nil {
		return File{}, err
	}
	_, err = io.Copy(out, in)
	if err := errors.Join(err, out.finish()); err != nil {
		return File{}, fmt.Errorf("backup %s: %w", name, err)
	}
	return out.as(name), nil
}

func (m Manifest) write(dir string) error {
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return fmt.Errorf("manifest: %w", err)
	}
	file, err := create(filepath.Join(dir, ManifestFile+".new"))
	if err != nil {
		return err
	}
	_, err = file.Write(append(text, '\n'))
	if err := errors.Join(err, file.finish()); err != nil {
		return fmt.Errorf("manifest: %w", err)
	}
	return os.Rename(filepath.Join(dir, ManifestFile+".new"), filepath.Join(dir, ManifestFile)) //nolint:wrapcheck // it names both files
}

// sumFile is a file under construction, and its digest.
type sumFile struct {
	file  *os.File
	sum   hash.Hash
	bytes int64
}

func create(path string) (*sumFile, error) {
	file, err := os.OpenFile(filepath.Clean(path), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("backup: %w", err)
	}
	return &sumFile{file: file, sum: sha256.New()}, nil
}

func (f *sumFile) Write(b []byte) (int, error) {
	n, err := f.file.Write(b)
	f.sum.Write(b[:n])
	f.bytes += int64(n)
	return n, err //nolint:wrapcheck // it names the file
}

// finish syncs the file to disk.
func (f *sumFile) finish() error { return errors.Join(f.file.Sync(), f.file.Close()) }

func (f *sumFile) as(name string) File {
	return File{Name: name, Bytes: f.bytes, SHA256: hex.EncodeToString(f.sum.Sum(nil))}
}

// counter counts bytes and reports the number.
type counter struct {
	tell        func(done, total int64)
	done, total int64
}

func (c *counter) Write(b []byte) (int, error) {
	c.done += int64(len(b))
	if c.tell != nil {
		c.tell(c.done, c.total)
	}
	return len(b), nil
}
