package staging_test

import (
	"bytes"
	"crypto/ed25519"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/bundle"
	"github.com/sluice-io/sluice/internal/bundle/staging"
	"github.com/sluice-io/sluice/internal/testkit/faulttest"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// sample returns a directory of about 10 files of 128 KiB, as it is sent, and its manifest.
func sample(t *testing.T) (*bundle.Manifest, []byte) {
	t.Helper()
	dir, noise := t.TempDir(), rand.NewChaCha8([32]byte{})
	require.NoError(t, os.Mkdir(filepath.Join(dir, "data"), 0o700))
	w, err := bundle.NewDirectoryWriter("entries", 0, func(name string, content []byte) error {
		return os.WriteFile(filepath.Join(dir, name), content, 0o600)
	})
	require.NoError(t, err)
	for seq := range uint64(10) {
		content := make([]byte, 128<<10)
		_, _ = noise.Read(content)
		require.NoError(t, w.Append(bundle.Entry{Change: sluice.Change{Op: sluice.OpWrite, Event: sluice.Event{Seq: seq + 1, ID: fmt.Sprint("e", seq), Path: "/a", Type: "t", Data: content}}}))
	}
	_, err = w.Seal(bundle.Header{SourceID: "s", SourceName: "s", Incarnation: "log", Through: 10, First: 1, ExportedAt: time.Unix(9, 0)}, ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)))
	require.NoError(t, err)
	d, err := bundle.OpenDirectory(dir)
	require.NoError(t, err)
	defer func() { require.NoError(t, d.Close()) }()
	box, err := d.OpenInbox(t.Context(), t.TempDir())
	require.NoError(t, err)
	all, _ := box.Missing()
	require.NoError(t, box.Close())
	var out bytes.Buffer
	require.NoError(t, d.Send(t.Context(), &out, all, func(int) {}))
	return d.Manifest, out.Bytes()
}

// S3-74: a disk that is full while files arrive is told with its remedy; nothing half is left, and the import goes on.
func TestStaging_FullDiskEndsTheArrival(t *testing.T) {
	t.Parallel()
	disk, resize := faulttest.SmallDisk(t, 600<<10)
	m, stream := sample(t)
	opts := options(t, 1<<30, 1<<40) // what others store meanwhile is not known when it begins
	opts.Dir = filepath.Join(disk, "imports")
	s := staging.New(opts)
	arrives := func() (*staging.Arrival, error) {
		in, err := bundle.ReadTar(bytes.NewReader(stream))
		require.NoError(t, err)
		a, err := s.Open(t.Context(), "ns", m)
		require.NoError(t, err)
		return a, a.Take(t.Context(), in)
	}
	missing := 0
	for range 3 {
		a, err := arrives()
		require.True(t, sluice.IsFull(err), "%v", err)
		require.ErrorContains(t, err, "free space, and import again")
		names, n := a.Missing()
		require.NotZero(t, n)
		require.Less(t, len(names), 10, "those that fit stay")
		require.NoError(t, a.Close())
		require.NoError(t, filepath.WalkDir(disk, func(path string, _ os.DirEntry, err error) error {
			require.False(t, strings.HasSuffix(path, ".part"), path)
			return err
		}))
		missing = len(names)
	}
	resize(8 << 20)
	a, err := arrives()
	require.NoError(t, err)
	names, _ := a.Missing()
	require.Empty(t, names)
	require.NotZero(t, missing)
	d, err := a.Directory()
	require.NoError(t, err)
	require.NoError(t, d.Check())
	require.NoError(t, d.Close())
	require.NoError(t, a.Remove())
	require.NoError(t, a.Close())
	left, err := os.ReadDir(opts.Dir)
	require.NoError(t, err)
	require.Empty(t, left)
}
