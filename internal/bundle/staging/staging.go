// Package staging keeps the directories of bundles while they arrive, so that an import can
// continue after an interruption. It limits their size and the time for which it keeps them.
package staging

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sluice-io/sluice/internal/bundle"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Options are the settings. All but Now and Log are required. A bundle is removed when no request
// has used it for Keep.
type Options struct {
	Dir   string // created when the first bundle arrives
	Limit int64  // bytes of all bundles in Dir
	Keep  time.Duration
	Free  func(dir string) (uint64, error) // free bytes of the file system; an error: unknown
	Now   func() time.Time                 // default: time.Now
	Log   *slog.Logger                     // default: slog.DiscardHandler
}

// Staging is a directory in which bundles arrive, each in a directory of its own. The name of that
// directory contains the size of the bundle that its signed manifest declares. The name is also the
// reservation: a restarted process counts the bytes of bundles that it has not seen arrive.
//
//	<dir>/<namespace>.<sha256 of the manifest>.<bytes>/manifest.json, entries-00001.ndjson, …
//
// It is safe for concurrent use; each bundle is used by one request at a time. Several processes
// need directories of their own.
type Staging struct {
	opts Options

	mu   sync.Mutex
	busy map[string]bool // names of the bundles that a request uses
}

// New returns a staging area.
func New(opts Options) *Staging {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	return &Staging{opts: opts, busy: map[string]bool{}}
}

// Limit returns the maximum size of a bundle, in bytes.
func (s *Staging) Limit() int64 { return s.opts.Limit }

const sweepEvery = time.Hour

// Run removes bundles that were not imported in time, those of an earlier process included, until
// ctx is done. The first sweep is at once, then one an hour. A sweep that fails is logged and does
// not end Run; the result is always nil.
func (s *Staging) Run(ctx context.Context) error {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		if err := s.sweep(); err != nil {
			s.opts.Log.LogAttrs(ctx, slog.LevelWarn, "staged bundles not removed", slog.Any("error", err))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// sweep removes directories that are too old, or do not have a name of this package. It removes
// names of other origin, too, so Dir must have no other use. It does not touch a bundle that a
// request uses, however old.
func (s *Staging) sweep() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	names, err := s.names()
	if err != nil {
		return err
	}
	oldest := s.opts.Now().Add(-s.opts.Keep)
	for _, name := range names {
		info, err := os.Lstat(filepath.Join(s.opts.Dir, name))
		if err != nil {
			return fmt.Errorf("staging: %w", err)
		}
		if _, known := sizeOf(name); s.busy[name] || known && info.ModTime().After(oldest) {
			continue
		}
		if err := os.RemoveAll(filepath.Join(s.opts.Dir, name)); err != nil {
			return fmt.Errorf("staging: %w", err)
		}
	}
	return nil
}

// names returns the names of the staged bundles.
func (s *Staging) names() ([]string, error) {
	entries, err := os.ReadDir(s.opts.Dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("staging: %w", err)
	}
	names := make([]string, len(entries))
	for i := range entries {
		names[i] = entries[i].Name()
	}
	return names, nil
}

// nameOf returns the name of the bundle's directory. The manifest's digest in it separates two
// bundles of one range; the namespace separates importers, which may not see each other's files.
func nameOf(namespace string, m *bundle.Manifest) string {
	return namespace + "." + m.Sum() + "." + strconv.FormatInt(m.Size(), 10)
}

// sizeOf returns the reserved bytes in a name; false for a name without a size.
func sizeOf(name string) (size int64, ok bool) {
	size, err := strconv.ParseInt(name[strings.LastIndexByte(name, '.')+1:], 10, 64)
	return size, err == nil && size >= 0
}

// Arrival is a bundle that is arriving. The caller must call Close.
type Arrival struct {
	*bundle.Inbox

	staging *Staging
	name    string
}

// Open reserves space for a bundle of a namespace, and finds those of its files that arrived
// before. A trusted key must have signed the manifest. Codes: TooLarge; Unavailable if another
// request imports the bundle, or if there is no space. A refusal has retry_after in seconds. Open
// reads the files that are there (bundle.Manifest.OpenInbox). The caller must close the arrival;
// until then no other request can open the bundle.
func (s *Staging) Open(ctx context.Context, namespace string, m *bundle.Manifest) (*Arrival, error) {
	name := nameOf(namespace, m)
	path := filepath.Join(s.opts.Dir, name)
	if err := s.reserve(name, path, m.Size()); err != nil {
		return nil, err
	}
	a := &Arrival{staging: s, name: name}
	box, err := m.OpenInbox(ctx, path)
	if err != nil {
		s.release(name)
		return nil, full(err)
	}
	a.Inbox = box
	_, missing := box.Missing()
	if err := s.fits(missing, m.Size()); err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return a, nil
}

// reserve marks a bundle as used, if it fits into Limit beside the others. It makes the directory
// and sets its time while it holds the lock. So another request counts it, and a sweep does not
// remove it as old.
func (s *Staging) reserve(name, path string, size int64) error {
	if size > s.opts.Limit {
		return sluice.Errorf(sluice.TooLarge, "the bundle has %d bytes, and mirrors.staging_bytes permits %d", size, s.opts.Limit)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy[name] {
		return sluice.Errorf(sluice.Unavailable, "another request imports this bundle; try again when it has ended").With("retry_after", 10)
	}
	names, err := s.names()
	if err != nil {
		return err
	}
	used := size
	for _, other := range names {
		if n, ok := sizeOf(other); ok && other != name {
			used += n
		}
	}
	if used > s.opts.Limit {
		return noSpace("bundles that were not imported to their end use the space of this one: import them first, wait %s for their removal, or raise mirrors.staging_bytes, now %d", s.opts.Keep, s.opts.Limit)
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return full(fmt.Errorf("staging: %w", err))
	}
	now := s.opts.Now()
	if err := os.Chtimes(path, now, now); err != nil {
		return fmt.Errorf("staging: %w", err)
	}
	s.busy[name] = true
	return nil
}

// fits returns an error unless the disk has space for the missing files, and for a copy of all
// files in the store.
func (s *Staging) fits(missing, size int64) error {
	free, err := s.opts.Free(s.opts.Dir)
	if err != nil {
		return nil //nolint:nilerr // not known on this system
	}
	if need := missing + size; free < uint64(need) { //nolint:gosec // both are sizes
		return noSpace("the disk has %d bytes free, and the import needs %d: for the files of the bundle, and for their copy in the store", free, need)
	}
	return nil
}

// noSpace returns an error (Unavailable) that says that there is no space.
func noSpace(format string, args ...any) error {
	return sluice.Errorf(sluice.Unavailable, format, args...).With("reason", sluice.ReasonStorage).With("retry_after", 60)
}

func (s *Staging) release(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.busy, name)
}

// Take stores the files of a stream. Codes: Unprocessable for a file that differs from the
// manifest; Unavailable if the disk is full.
func (a *Arrival) Take(ctx context.Context, in *bundle.Arriving) error {
	return full(a.Inbox.Take(ctx, in))
}

// Directory opens the bundle. Call it when no file is missing. The caller must close it before
// Remove. Its Verify notices files that have changed since they arrived.
func (a *Arrival) Directory() (*bundle.Directory, error) {
	return bundle.OpenDirectory(filepath.Join(a.staging.opts.Dir, a.name)) //nolint:wrapcheck // names the file
}

// Close ends the arrival. The files that have arrived stay for the next request. If there are none,
// the reserved space is freed.
func (a *Arrival) Close() error {
	defer a.staging.release(a.name)
	err := a.Inbox.Close()
	if !a.Begun() {
		err = errors.Join(err, a.Remove())
	}
	return err //nolint:wrapcheck // names the bundle
}

// Remove removes the files of a bundle that was imported, or never will be. Call it before Close,
// which lets the next request open the same name.
func (a *Arrival) Remove() error {
	if err := os.RemoveAll(filepath.Join(a.staging.opts.Dir, a.name)); err != nil {
		return fmt.Errorf("staging: %w", err)
	}
	return nil
}
