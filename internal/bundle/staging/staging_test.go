package staging_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/bundle"
	"github.com/sluice-io/sluice/internal/bundle/staging"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// manifestOf returns the manifest of a bundle with one entry.
func manifestOf(t *testing.T, through uint64) *bundle.Manifest {
	t.Helper()
	m, err := bundle.ParseManifest(filesOf(t, through)[bundle.ManifestFile])
	require.NoError(t, err)
	return m
}

func filesOf(t *testing.T, through uint64) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	w, err := bundle.NewDirectoryWriter("entries", 0, func(name string, content []byte) error {
		files[name] = bytes.Clone(content)
		return nil
	})
	require.NoError(t, err)
	require.NoError(t, w.Append(bundle.Entry{Change: sluice.Change{Op: sluice.OpWrite, Event: sluice.Event{Seq: through, ID: "e", Path: "/a", Type: "t"}}}))
	_, err = w.Seal(bundle.Header{SourceID: "s", SourceName: "s", Incarnation: "log", Through: through, First: 1, ExportedAt: time.Unix(9, 0)}, ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)))
	require.NoError(t, err)
	return files
}

// begun returns the arrival of a bundle of which one file has arrived.
func begun(t *testing.T, s *staging.Staging, ns string, through uint64) *staging.Arrival {
	t.Helper()
	var stream bytes.Buffer
	files, to := filesOf(t, through), bundle.NewTarWriter(&stream)
	for _, name := range []string{bundle.ManifestFile, "SHA256SUMS"} {
		require.NoError(t, to.Put(name, files[name]))
	}
	require.NoError(t, to.Close())
	in, err := bundle.ReadTar(&stream)
	require.NoError(t, err)
	a, err := s.Open(t.Context(), ns, in.Manifest)
	require.NoError(t, err)
	require.NoError(t, a.Take(t.Context(), in))
	return a
}

func options(t *testing.T, limit int64, free uint64) staging.Options {
	t.Helper()
	return staging.Options{
		Dir: filepath.Join(t.TempDir(), "imports"), Limit: limit, Keep: 24 * time.Hour,
		Free: func(string) (uint64, error) { return free, nil },
	}
}

// S3-74: what does not fit into the bounds of the setting and the disk is refused before a byte of it is stored.
func TestStaging_IsBounded(t *testing.T) {
	t.Parallel()
	m, other := manifestOf(t, 1), manifestOf(t, 2)
	_, err := staging.New(options(t, m.Size()-1, 1<<40)).Open(t.Context(), "ns", m)
	require.Equal(t, sluice.TooLarge, sluice.CodeOf(err))

	_, err = staging.New(options(t, 1<<30, uint64(m.Size()))).Open(t.Context(), "ns", m)
	require.True(t, sluice.IsFull(err), "the copy needs space, too: %v", err)

	s := staging.New(options(t, m.Size()+other.Size()-1, 1<<40))
	first := begun(t, s, "ns", 1)
	_, err = s.Open(t.Context(), "ns", m)
	require.Equal(t, sluice.Unavailable, sluice.CodeOf(err), "another request has it")
	require.ErrorContains(t, err, "another request")
	require.NoError(t, first.Close())
	_, err = s.Open(t.Context(), "ns", other)
	require.True(t, sluice.IsFull(err), "the first one is not imported: %v", err)
	first, err = s.Open(t.Context(), "ns", m)
	require.NoError(t, err)
	require.NoError(t, first.Remove())
	require.NoError(t, first.Close())
	second, err := s.Open(t.Context(), "ns", other)
	require.NoError(t, err)
	require.NoError(t, second.Close())

	small := options(t, 2*m.Size(), uint64(m.Size()))
	s = staging.New(small)
	for range 5 {
		_, err = s.Open(t.Context(), "ns", m)
		require.ErrorContains(t, err, "the disk has", "and what did not fit reserves nothing")
	}
	left, err := os.ReadDir(small.Dir)
	require.NoError(t, err)
	require.Empty(t, left)

	unknown := options(t, 1<<30, 0)
	unknown.Free = func(string) (uint64, error) { return 0, errors.New("not known on this system") }
	third, err := staging.New(unknown).Open(t.Context(), "ns", m)
	require.NoError(t, err)
	require.NoError(t, third.Close())
}

// Bundles that were not imported in a day are removed, those of a process that crashed and other files included; those in use
// stay.
func TestStaging_IsSweptAfterADay(t *testing.T) {
	t.Parallel()
	opts, now := options(t, 1<<30, 1<<40), time.Now()
	opts.Now = func() time.Time { return now }
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	swept := func(s *staging.Staging) int {
		require.NoError(t, s.Run(ended))
		all, err := os.ReadDir(opts.Dir)
		require.NoError(t, err)
		return len(all)
	}
	require.NoError(t, begun(t, staging.New(opts), "crashed", 1).Close())
	require.NoError(t, os.WriteFile(filepath.Join(opts.Dir, "letter.txt"), nil, 0o600))

	s := staging.New(opts)
	used := begun(t, s, "used", 2)
	require.Equal(t, 2, swept(s), "the letter is gone")
	now = now.Add(25 * time.Hour)
	require.Equal(t, 1, swept(s))
	require.NoError(t, used.Close())
	require.Zero(t, swept(s))
}
