package e2e_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/bundle"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// importer is a server in a process of its own that imports a directory, and may be killed.
type importer struct {
	child

	token string
	dir   *bundle.Directory
}

// newImporter returns an importer with a mirror for the bundle.
func newImporter(t *testing.T, g gapped, dir *bundle.Directory) *importer {
	t.Helper()
	i := &importer{child: child{dir: t.TempDir(), http: "127.0.0.1:0", nats: "127.0.0.1:0"}, dir: dir}
	i.start(t)
	t.Cleanup(func() { _ = i.proc.Process.Kill() })
	i.token = i.child.token(t)
	at := peer{i.http}
	at.until(t, i.token, "POST /v1/subscriptions", `{"id":"m","mode":"mirror","source":"`+g.source()+`","depth":"full"}`)
	kid, body := g.key(t, g.low)
	at.until(t, i.token, trusted+kid, body)
	return i
}

// sends sends the manifest and files of the bundle.
func (i *importer) sends(t *testing.T, names []string) (client.DirectoryImport, error) {
	t.Helper()
	var out strings.Builder
	if err := i.dir.Send(t.Context(), &out, names, func(int) {}); err != nil {
		return client.DirectoryImport{}, err
	}
	return client.New("http://"+i.http, i.token).ImportDirectory(t.Context(), "default", strings.NewReader(out.String()), false)
}

// watermark returns how far the mirror is.
func (i *importer) watermark(t *testing.T) uint64 {
	t.Helper()
	var st sluice.MirrorStatus
	require.NoError(t, json.Unmarshal(peer{i.http}.until(t, i.token, "GET /v1/subscriptions/m/status", ""), &st))
	return st.Watermark
}

// dies begins the import of a bundle, and kills the importer when it has applied a step. It returns the watermark of
// the server that runs on its data.
func (i *importer) dies(t *testing.T) uint64 {
	t.Helper()
	part, err := i.sends(t, nil)
	require.NoError(t, err)
	var sending sync.WaitGroup
	sending.Go(func() { _, _ = i.sends(t, part.Missing) }) // which the kill interrupts
	require.Eventually(t, func() bool { return i.watermark(t) > 0 }, time.Minute, time.Millisecond)
	i.kill(t)
	sending.Wait()
	i.start(t)
	return i.watermark(t)
}

// Issue 16: an importer that is killed while it applies a directory has whole steps of it, goes on with the files that it
// has, and then has what the source has. S3-56, S3-69.
func TestBundleDirectory_GoesOnAfterAKill(t *testing.T) {
	t.Parallel()
	const total = 12_000
	g := gapped{low: start(t, t.TempDir(), nil)}
	source := peer{strings.TrimPrefix(g.low.at.HTTP, "http://")}
	for n := 0; n < total; n += 500 {
		batch := make([]string, 500)
		for k := range batch {
			batch[k] = fmt.Sprintf(`{"specversion":"1.0","source":"/s","type":"t","id":"e%d","path":"/a/%d","data":{"n":%d}}`, n+k, (n+k)%97, n+k)
		}
		source.until(t, g.low.token, "POST /v1/namespaces/default/events", "["+strings.Join(batch, ",")+"]")
	}
	want, _ := source.sourceOf(t, g.low.token)
	require.Len(t, want, total)
	dir := g.low.directory(t, 0)

	var high *importer
	watermark, through := uint64(0), dir.Header.Through
	for tries := 0; watermark == 0 || watermark == through; tries++ {
		require.Less(t, tries, 5, "the import ends before the kill")
		high = newImporter(t, g, dir)
		watermark = high.dies(t)
	}
	var next struct{ Items []changeable }
	require.NoError(t, json.Unmarshal(source.until(t, g.low.token, fmt.Sprint("GET /v1/namespaces/default/observe?limit=1&since=", watermark), ""), &next))
	applied := next.Items[0].Data.N // the number of the first event that is not
	has, twice := peer{high.http}.copyOf(t, high.token)
	require.Len(t, has, applied, "whole steps through the watermark %d", watermark)
	require.Zero(t, twice)
	for n := range applied {
		require.Equal(t, n, has[fmt.Sprint("e", n)])
	}
	staged, err := filepath.Glob(filepath.Join(high.child.dir, "imports", "*", "entries-*"))
	require.NoError(t, err)
	require.NotEmpty(t, staged, "the files have survived")

	done, err := high.sends(t, nil)
	require.NoError(t, err)
	require.Empty(t, done.Missing, "no file is sent again")
	require.Equal(t, []any{total - applied, through}, []any{done.Applied, done.Watermark})
	has, twice = peer{high.http}.copyOf(t, high.token)
	require.Equal(t, want, has)
	require.Zero(t, twice)
	_, err = high.sends(t, nil)
	require.Equal(t, sluice.BundleImported, sluice.CodeOf(err), "%v", err)
	t.Logf("killed at %d of %d", watermark, through)
}
