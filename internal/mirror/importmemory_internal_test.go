package mirror

import (
	"bytes"
	"crypto/ed25519"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/bundle"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// directoryOf returns a bundle in a directory, with so many entries of 8 kB, and who is trusted.
func directoryOf(t *testing.T, entries uint64) (*bundle.Directory, bundle.Trust) {
	t.Helper()
	path := t.TempDir()
	w, err := bundle.NewDirectoryWriter("entries", 0, func(name string, content []byte) error {
		return os.WriteFile(filepath.Join(path, name), content, 0o600)
	})
	require.NoError(t, err)
	data := fmt.Appendf(nil, `{"rows":[%s1]}`, bytes.Repeat([]byte(`{"id":7,"name":"Jos"},`), 360))
	for seq := uint64(1); seq <= entries; seq++ {
		require.NoError(t, w.Append(bundle.Entry{Change: sluice.ChangeOf(sluice.Event{Seq: seq, ID: fmt.Sprint("id-", seq), Path: "/a", Data: data})}))
	}
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	h, err := w.Seal(bundle.Header{SourceID: "s", Incarnation: "origin", Through: entries, First: 1, ExportedAt: time.Now()}, key)
	require.NoError(t, err)
	trust, err := bundle.Trust{}.Add(bundle.NewJWK(key.Public().(ed25519.PublicKey)), h.SourceID, time.Now())
	require.NoError(t, err)
	d, err := bundle.OpenDirectory(path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d, trust
}

// heapDuring returns how much of the heap was reachable while f ran, besides what was before.
func heapDuring(f func()) uint64 {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	used := func() uint64 {
		runtime.GC()
		metrics.Read(live)
		return live[0].Value.Uint64()
	}
	before, peak, done := used(), uint64(0), make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	looks := time.NewTicker(20 * time.Millisecond) // collections leave f half of the time
	defer looks.Stop()
	for {
		select {
		case <-done:
			return peak - min(peak, before)
		case <-looks.C:
			peak = max(peak, used())
		}
	}
}

// S3-69, S3-74: the memory of an importer is that of a few files of entries, however long the bundle is: it is bounded, while it
// is verified and while it is applied. Tests that measure memory do not run beside others.
func TestTake_MemoryDoesNotGrowWithTheBundle(t *testing.T) { //nolint:paralleltest // it measures the heap
	const entries, most = 28_000, 128 << 20
	d, trust := directoryOf(t, entries)
	require.Greater(t, d.Size(), int64(2*most))
	at := &copies{place: Place{Incarnation: "origin"}, steps: entries}
	may := permitted{labels{label: sluice.Label{Level: sluice.LevelSecret}}}
	e := New(Deps{Copies: at, Gate: may, Namespaces: may}, Options{})
	r := Rule{Mirror: &sluice.Mirror{ID: "m", Source: "s", Namespace: "high", Depth: sluice.DepthFull}, Own: "own"}
	var c *bundle.Content
	verified := heapDuring(func() {
		var err error
		c, err = d.Verify(t.Context(), trust)
		require.NoError(t, err)
	})
	applied := heapDuring(func() {
		_, _, err := e.take(t.Context(), r, at.place, c, bundle.Import{})
		require.NoError(t, err)
	})
	require.Equal(t, entries, at.entries)
	require.Less(t, verified, uint64(most))
	require.Less(t, applied, uint64(most))
	t.Logf("%d MB: %d MB while it is verified, %d MB while it is applied", d.Size()>>20, verified>>20, applied>>20)
}
