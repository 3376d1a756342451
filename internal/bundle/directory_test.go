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
func large(since uint64) []bundle.Entry {
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
	w, err := bundle.CreateDirectory(dir, h)
	require.NoError(tb, err)
	appendAll(tb, w, entries)
	h, err = w.Seal(h, keyOf(1))
	require.NoError(tb, err)
	require.NoError(tb, w.Close())
	return dir, h
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
				want = large(40)
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
	dir, inDirectory := writeDirectory(t, headerOf(sluice.DepthFull, 40, 60), large(40))
	text, inDocument := write(t, header(40, 60), sluice.DepthFull, large(40), keyOf(1))
	require.Equal(t, inDocument, inDirectory)
	require.Equal(t, read(t, text).Digest(), open(t, dir).Digest())

	other, _ := write(t, header(40, 61), sluice.DepthFull, large(40), keyOf(1))
	require.NotEqual(t, read(t, other).Digest(), open(t, dir).Digest())
}

// A person audits a directory with ls and sha256sum -c: plain files, of which each is listed, with names that
// every file system accepts.
func TestDirectory_IsPlainFilesThatAPersonCanAudit(t *testing.T) {
	t.Parallel()
	dir, _ := writeDirectory(t, headerOf(sluice.DepthFull, 40, 60), large(40))
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

// An export that ended early goes on behind the last entry on the disk, and becomes the same bundle.
func TestDirectory_InterruptedExportGoesOn(t *testing.T) {
	t.Parallel()
	h := headerOf(sluice.DepthFull, 0, 1000)
	var all []bundle.Entry
	for n := range uint64(300) {
		e := sample(sluice.DepthFull, 2*n)[1]
		e.Event.Data = bytes.Repeat([]byte{byte('a' + n%26)}, 64<<10)
		if n%50 == 7 {
			e.Event.Data = append(e.Event.Data, 'x')
		}
		all = append(all, e)
	}
	whole, _ := writeDirectory(t, h, all)
	want := filesOf(t, whole)
	for name, damage := range map[string]func(dir string){
		"nothing":               func(string) {},
		"a torn file":           func(dir string) { truncate(t, dir+"/entries-00002.ndjson") },
		"a missing file":        func(dir string) { require.NoError(t, os.Remove(dir+"/entries-00001.ndjson")) },
		"files in writing":      func(dir string) { put(t, dir+"/SHA256SUMS.part", "x"); put(t, dir+"/entries-00003.ndjson.part", "x") },
		"data without an entry": func(dir string) { put(t, dir+"/data/"+strings.Repeat("a", 64)+".txt", "x") },
		"torn data": func(dir string) {
			data, err := filepath.Glob(dir + "/data/*.txt")
			require.NoError(t, err)
			truncate(t, data[0])
		},
		"missing data": func(dir string) { require.NoError(t, os.RemoveAll(dir+"/data")) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "b")
			w, err := bundle.CreateDirectory(dir, h)
			require.NoError(t, err)
			appendAll(t, w, all[:290])
			require.NoError(t, w.Close())
			_, err = bundle.OpenDirectory(dir)
			require.ErrorContains(t, err, "missing", "it is no bundle yet")
			damage(dir)
			w, err = bundle.CreateDirectory(dir, h)
			require.NoError(t, err)
			require.LessOrEqual(t, w.Last(), all[289].Event.Seq)
			require.True(t, name != "nothing" || w.Last() > all[200].Event.Seq)
			appendAll(t, w, all)
			_, err = w.Seal(h, keyOf(1))
			require.NoError(t, err)
			require.NoError(t, w.Close())
			require.Equal(t, want, filesOf(t, dir))
		})
	}
}

// appendAll appends the entries behind the last one.
func appendAll(tb testing.TB, w *bundle.DirectoryWriter, all []bundle.Entry) {
	tb.Helper()
	for _, e := range all {
		if e.Event.Seq > w.Last() {
			require.NoError(tb, w.Append(e))
		}
	}
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

func TestDirectory_OtherContentIsNotOverwritten(t *testing.T) {
	t.Parallel()
	h := headerOf(sluice.DepthFull, 0, 60)
	complete, _ := writeDirectory(t, h, large(0))
	_, err := bundle.CreateDirectory(complete, h)
	require.Equal(t, sluice.Conflict, sluice.CodeOf(err))

	foreign := t.TempDir()
	put(t, foreign+"/letter.txt", "x")
	_, err = bundle.CreateDirectory(foreign, h)
	require.Equal(t, sluice.Conflict, sluice.CodeOf(err))

	for name, change := range map[string]func(*bundle.Header){
		"source":      func(h *bundle.Header) { h.SourceID = "x" },
		"incarnation": func(h *bundle.Header) { h.Incarnation = "x" },
		"scope":       func(h *bundle.Header) { h.Scope = "claims" },
		"since":       func(h *bundle.Header) { h.Since = 1 },
	} {
		dir := filepath.Join(t.TempDir(), "b")
		w, err := bundle.CreateDirectory(dir, h)
		require.NoError(t, err)
		require.NoError(t, w.Close())
		other := h
		change(&other)
		_, err = bundle.CreateDirectory(dir, other)
		require.Equal(t, sluice.Conflict, sluice.CodeOf(err), name)
		put(t, dir+"/data/letter.txt", "x")
		_, err = bundle.CreateDirectory(dir, h)
		require.Equal(t, sluice.Conflict, sluice.CodeOf(err), name)
	}
	_, err = bundle.CreateDirectory(filepath.Join(t.TempDir(), "b"), bundle.Header{Scope: "all"})
	require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(err))
}

func TestDirectory_WriterRefusesInvalidEntries(t *testing.T) {
	t.Parallel()
	h := headerOf(sluice.DepthFull, 40, 60)
	w, err := bundle.CreateDirectory(filepath.Join(t.TempDir(), "b"), h)
	require.NoError(t, err)
	all := sample(sluice.DepthFull, 40)
	require.NoError(t, w.Append(all[1]))
	require.ErrorContains(t, w.Append(all[0]), "out of order")
	require.ErrorContains(t, w.Append(bundle.Entry{}), "sequences")
	huge := all[2]
	huge.Summary = fmt.Appendf(nil, "%q", strings.Repeat("x", bundle.MaxContent))
	require.Equal(t, sluice.TooLarge, sluice.CodeOf(w.Append(huge)))
	other := h
	other.Incarnation = "log-2"
	_, err = w.Seal(other, keyOf(1))
	require.Equal(t, sluice.Unprocessable, sluice.CodeOf(err))
	other = h
	other.Through = 41
	_, err = w.Seal(other, keyOf(1))
	require.Equal(t, sluice.Unprocessable, sluice.CodeOf(err))
	_, err = w.Seal(h, keyOf(1))
	require.NoError(t, err)
	require.NoError(t, w.Close())
}

func TestDirectory_WithoutEntriesIsAHeartbeat(t *testing.T) {
	t.Parallel()
	dir, h := writeDirectory(t, headerOf(sluice.DepthFull, 40, 40), nil)
	require.True(t, h.Heartbeat)
	c, err := open(t, dir).Verify(t.Context(), trusting(t, 1))
	require.NoError(t, err)
	require.Empty(t, entriesOf(t, c, 0))
}

// A copy that ended early goes on: files that are there are not written again, and damaged ones are.
func TestDirectory_InterruptedCopyGoesOn(t *testing.T) {
	t.Parallel()
	dir, _ := writeDirectory(t, headerOf(sluice.DepthFull, 40, 60), large(40))
	want := filesOf(t, dir)
	target := filepath.Join(t.TempDir(), "medium", "b")
	require.NoError(t, bundle.CopyDirectory(t.Context(), dir, target))
	require.Equal(t, want, filesOf(t, target))

	entries := filepath.Join(target, "entries-00001.ndjson")
	kept, err := os.Stat(entries)
	require.NoError(t, err)
	for name := range want {
		if name != "entries-00001.ndjson" {
			truncate(t, filepath.Join(target, name))
		}
	}
	require.NoError(t, os.Remove(filepath.Join(target, "manifest.json")))
	require.NoError(t, bundle.CopyDirectory(t.Context(), dir, target))
	require.Equal(t, want, filesOf(t, target))
	after, err := os.Stat(entries)
	require.NoError(t, err)
	require.True(t, os.SameFile(kept, after))

	other, _ := writeDirectory(t, headerOf(sluice.DepthFull, 40, 61), large(40))
	require.Equal(t, sluice.Conflict, sluice.CodeOf(bundle.CopyDirectory(t.Context(), other, target)))
	truncate(t, filepath.Join(other, "entries-00001.ndjson"))
	err = bundle.CopyDirectory(t.Context(), other, filepath.Join(t.TempDir(), "b"))
	require.ErrorContains(t, err, "entries-00001.ndjson")
}
