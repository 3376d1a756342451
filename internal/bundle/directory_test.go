package bundle_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/bundle"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// large returns entries with content of every kind that a directory has in files.
func large() []bundle.Entry {
	const since = 40
	all := sample(sluice.DepthFull, since)
	for i, content := range []struct{ kind, data string }{
		{"text/plain", strings.Repeat("x", 64<<10)},
		{"text/plain", strings.Repeat("x", 64<<10+1)},
		{"application/pdf", strings.Repeat("x", 64<<10+1)},
		{"text/plain", strings.Repeat("x", 64<<10+1)},
		{"application/json", `"` + strings.Repeat("\u20ac", 64<<10) + `"`},
		{"no media type;;", "\x00"},
		{"application/geo+json", `"` + strings.Repeat("y", 64<<10) + `"`},
	} {
		seq := since + 10 + uint64(i)
		all = append(all, bundle.Entry{Change: sluice.ChangeOf(sluice.Event{
			Seq: seq, ID: fmt.Sprint("large-", seq), Path: "/large", Type: "file", Source: "/osint", ContentType: content.kind, Data: []byte(content.data),
		})})
	}
	return all
}

func headerOf(depth sluice.Depth, since, through uint64) bundle.Header {
	h := header(since, through)
	h.Scope = depth.Scope()
	return h
}

// writeDirectory writes a bundle into a new directory.
func writeDirectory(tb testing.TB, h bundle.Header, entries []bundle.Entry) (string, bundle.Header) {
	tb.Helper()
	dir := filepath.Join(tb.TempDir(), "bundle")
	w, err := bundle.NewDirectoryWriter(h.Scope, h.Since, into(tb, dir))
	require.NoError(tb, err)
	for _, e := range entries {
		require.NoError(tb, w.Append(e))
	}
	h, err = w.Seal(h, keyOf(1))
	require.NoError(tb, err)
	return dir, h
}

// into returns a function that writes files into a new directory.
func into(tb testing.TB, dir string) func(name string, content []byte) error {
	tb.Helper()
	require.NoError(tb, os.MkdirAll(dir+"/data", 0o700))
	return func(name string, content []byte) error { return os.WriteFile(filepath.Join(dir, name), content, 0o600) }
}

func open(tb testing.TB, dir string) *bundle.Directory {
	tb.Helper()
	d, err := bundle.OpenDirectory(dir)
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = d.Close() })
	return d
}

// filesOf returns the content of the files of a directory by their names.
func filesOf(tb testing.TB, dir string) map[string]string {
	tb.Helper()
	files := map[string]string{}
	require.NoError(tb, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		require.NoError(tb, err)
		text, err := os.ReadFile(path)
		files[filepath.ToSlash(name)] = string(text)
		return err
	}))
	return files
}

func TestDirectory_ReturnsTheEntriesOfItsWriter(t *testing.T) { // S3-61, S3-74
	t.Parallel()
	for _, depth := range []sluice.Depth{sluice.DepthCatalog, sluice.DepthSummary, sluice.DepthFull} {
		t.Run(string(depth), func(t *testing.T) {
			t.Parallel()
			want := sample(depth, 40)
			if depth == sluice.DepthFull {
				want = large()
			}
			dir, h := writeDirectory(t, headerOf(depth, 40, 60), want)
			d := open(t, dir)
			require.Equal(t, h, d.Header)
			c, err := d.Verify(t.Context(), trusting(t, 1))
			require.NoError(t, err)
			require.Equal(t, h, c.Header)
			require.Equal(t, d.Digest(), c.Digest)
			require.Equal(t, want, entriesOf(t, c, 0))
			require.Equal(t, want[3:], entriesOf(t, c, 43))
		})
	}
}

// The same export has the same digest in both forms, so that a chain may change its form.
func TestDirectory_DigestIsThatOfTheDocument(t *testing.T) {
	t.Parallel()
	dir, inDirectory := writeDirectory(t, headerOf(sluice.DepthFull, 40, 60), large())
	text, inDocument := write(t, header(40, 60), sluice.DepthFull, large(), keyOf(1))
	require.Equal(t, inDocument, inDirectory)
	require.Equal(t, read(t, text).Digest(), open(t, dir).Digest())

	other, _ := write(t, header(40, 61), sluice.DepthFull, large(), keyOf(1))
	require.NotEqual(t, read(t, other).Digest(), open(t, dir).Digest())
}

// A person audits a directory with ls and sha256sum -c: plain files, of which each is listed, with names that
// every file system accepts.
func TestDirectory_IsPlainFilesThatAPersonCanAudit(t *testing.T) {
	t.Parallel()
	dir, _ := writeDirectory(t, headerOf(sluice.DepthFull, 40, 60), large())
	files := filesOf(t, dir)
	listed := map[string]bool{"SHA256SUMS": true}
	for line := range strings.Lines(files["SHA256SUMS"]) {
		sum, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		require.True(t, ok)
		got := sha256.Sum256([]byte(files[name]))
		require.Equal(t, sum, hex.EncodeToString(got[:]), name)
		listed[name] = true
	}
	portable := regexp.MustCompile(`^(data/)?[A-Za-z0-9-]{1,64}(\.[a-z0-9]{1,8})?$`)
	extensions := map[string]int{}
	for name := range files {
		require.True(t, listed[name], name)
		require.Regexp(t, portable, name)
		extensions[filepath.Ext(name)]++
	}
	require.Len(t, files, len(listed))
	require.Equal(t, map[string]int{"": 1, ".json": 3, ".ndjson": 1, ".txt": 1, ".pdf": 1, ".bin": 2}, extensions, "equal content is one file")
	require.NotContains(t, files["entries-00001.ndjson"], "base64")
}

func TestDirectory_EntriesAreInFilesOfBoundedSize(t *testing.T) {
	t.Parallel()
	var all []bundle.Entry
	for seq := range uint64(300) {
		e := sample(sluice.DepthFull, seq)[1]
		e.Event.Data = bytes.Repeat([]byte("z"), 64<<10)
		all = append(all, e)
	}
	dir, _ := writeDirectory(t, headerOf(sluice.DepthFull, 0, 500), all)
	files := filesOf(t, dir)
	require.Len(t, files, 5)
	for name, text := range files {
		require.LessOrEqual(t, len(text), 8<<20, name)
	}
	c, err := open(t, dir).Verify(t.Context(), trusting(t, 1))
	require.NoError(t, err)
	require.Len(t, entriesOf(t, c, 0), 300)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = open(t, dir).Verify(ctx, trusting(t, 1))
	require.ErrorIs(t, err, context.Canceled)
}

func truncate(tb testing.TB, path string) {
	tb.Helper()
	info, err := os.Stat(path)
	require.NoError(tb, err)
	require.NoError(tb, os.Truncate(path, info.Size()/2))
}

func put(tb testing.TB, path, text string) {
	tb.Helper()
	require.NoError(tb, os.WriteFile(path, []byte(text), 0o600))
}

func TestDirectory_WriterRefusesInvalidEntries(t *testing.T) {
	t.Parallel()
	h := headerOf(sluice.DepthFull, 40, 60)
	dir := t.TempDir()
	w, err := bundle.NewDirectoryWriter(h.Scope, h.Since, into(t, dir))
	require.NoError(t, err)
	all := sample(sluice.DepthFull, 40)
	require.NoError(t, w.Append(all[1]))
	require.ErrorContains(t, w.Append(all[0]), "out of order")
	require.ErrorContains(t, w.Append(bundle.Entry{}), "sequences")
	huge := all[2]
	huge.Summary = fmt.Appendf(nil, "%q", strings.Repeat("x", bundle.MaxContent))
	require.Equal(t, sluice.TooLarge, sluice.CodeOf(w.Append(huge)))
	before := filesOf(t, dir)
	huge.Event.Data = bytes.Repeat([]byte(" "), 100_000)
	require.Equal(t, sluice.TooLarge, sluice.CodeOf(w.Append(huge)))
	require.Equal(t, before, filesOf(t, dir), "no file without an entry")
	_, err = w.Seal(h, nil)
	require.Equal(t, sluice.Unprocessable, sluice.CodeOf(err), "there is no key")
	other := h
	other.Through = 41
	_, err = w.Seal(other, keyOf(1))
	require.Equal(t, sluice.Unprocessable, sluice.CodeOf(err))
	_, err = w.Seal(h, keyOf(1))
	require.NoError(t, err)
	_, err = bundle.NewDirectoryWriter("all", 0, nil)
	require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(err))
}

func TestDirectory_WithoutEntriesIsAHeartbeat(t *testing.T) {
	t.Parallel()
	dir, h := writeDirectory(t, headerOf(sluice.DepthFull, 40, 40), nil)
	require.True(t, h.Heartbeat)
	c, err := open(t, dir).Verify(t.Context(), trusting(t, 1))
	require.NoError(t, err)
	require.Empty(t, entriesOf(t, c, 0))
}
