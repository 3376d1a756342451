package bundle_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/bundle"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// tarred returns an export as a tar stream.
func tarred(t *testing.T, h bundle.Header, entries []bundle.Entry, change func(name string, content []byte) (string, []byte)) []byte {
	t.Helper()
	var out bytes.Buffer
	to := bundle.NewTarWriter(&out)
	w, err := bundle.NewDirectoryWriter(h.Scope, h.Since, func(name string, content []byte) error {
		if change != nil {
			name, content = change(name, content)
		}
		if name == "" {
			return nil
		}
		return to.Put(name, content)
	})
	require.NoError(t, err)
	for _, e := range entries {
		require.NoError(t, w.Append(e))
	}
	_, err = w.Seal(h, keyOf(1))
	require.NoError(t, err)
	require.NoError(t, to.Close())
	return out.Bytes()
}

// S3-61, S3-74: an export that was received is a directory that verifies.
func TestReceive_WritesTheExport(t *testing.T) {
	t.Parallel()
	h, dir := headerOf(sluice.DepthFull, 40, 60), filepath.Join(t.TempDir(), "b")
	m, err := bundle.Receive(t.Context(), bytes.NewReader(tarred(t, h, large(), nil)), dir)
	require.NoError(t, err)
	require.Equal(t, uint64(60), m.Header.Through)
	c, err := open(t, dir).Verify(t.Context(), trusting(t, 1))
	require.NoError(t, err)
	require.Equal(t, large(), entriesOf(t, c, 0))
	require.Equal(t, m.Digest(), c.Digest)
}

// A connection that is cut is a failure of the transfer, and not of what was exported.
func TestReceive_CutConnectionIsUnavailable(t *testing.T) {
	t.Parallel()
	whole := tarred(t, headerOf(sluice.DepthFull, 40, 60), large(), nil)
	for _, cut := range []error{io.ErrUnexpectedEOF, syscall.ECONNRESET} {
		for _, n := range []int{100, 600, len(whole) / 2, len(whole) - 1500} {
			_, err := bundle.Receive(t.Context(), io.MultiReader(bytes.NewReader(whole[:n]), iotest.ErrReader(cut)), t.TempDir())
			require.Equal(t, sluice.Unavailable, sluice.CodeOf(err), "%v after %d: %v", cut, n, err)
			require.ErrorContains(t, err, "export again")
		}
	}
}

// An export that was cut or changed in transfer leaves no manifest, and so no bundle.
func TestReceive_RefusesAnythingElse(t *testing.T) {
	t.Parallel()
	h := headerOf(sluice.DepthFull, 40, 60)
	whole := tarred(t, h, large(), nil)
	rename := func(from, to string) []byte {
		return tarred(t, h, large(), func(name string, content []byte) (string, []byte) {
			if strings.HasPrefix(name, from) {
				name = to
			}
			return name, content
		})
	}
	for name, c := range map[string]struct {
		stream []byte
		want   string
	}{
		"nothing":             {nil, "before its manifest"},
		"a part":              {whole[:len(whole)/2], "unexpected EOF"},
		"no manifest":         {rename("manifest.json", ""), "before its manifest"},
		"no sums":             {rename("SHA256SUMS", ""), "other files"},
		"a file less":         {rename("entries-", ""), "not the file"},
		"another name":        {rename("entries-", "entries-00002.ndjson"), "not the file"},
		"a way out":           {rename("entries-", "../entries-00001.ndjson"), "no file of a bundle"},
		"a way out of data":   {rename("data/", "data/../../x.txt"), "no file of a bundle"},
		"a path in entries":   {rename("entries-", "entries-/x"), "no file of a bundle"},
		"a failure":           {rename("SHA256SUMS", "error.txt"), "the export failed"},
		"no tar stream":       {bytes.Repeat([]byte("x"), 2048), "damaged"},
		"changed in transfer": {bytes.Replace(whole, []byte(`e-1`), []byte(`e-9`), 1), "not the file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			parent := t.TempDir()
			dir := filepath.Join(parent, "b")
			_, err := bundle.Receive(t.Context(), bytes.NewReader(c.stream), dir)
			require.ErrorContains(t, err, c.want)
			_, err = bundle.OpenDirectory(dir)
			require.Error(t, err)
			left, err := os.ReadDir(parent)
			require.NoError(t, err)
			require.Len(t, left, 1, "nothing is written beside it")
		})
	}
}

// arrive puts a stream into a directory, and returns what is missing then.
func arrive(t *testing.T, dir string, stream []byte) ([]string, error) {
	t.Helper()
	in, err := bundle.ReadTar(bytes.NewReader(stream))
	if err != nil {
		return nil, err
	}
	box, err := in.OpenInbox(t.Context(), dir)
	require.NoError(t, err)
	defer func() { require.NoError(t, box.Close()) }()
	err = box.Take(t.Context(), in)
	missing, _ := box.Missing()
	return missing, err
}

// S3-74: an import goes on with the files that have not arrived, or not whole.
func TestInbox_InterruptedArrivalGoesOn(t *testing.T) {
	t.Parallel()
	from, _ := writeDirectory(t, headerOf(sluice.DepthFull, 40, 60), large())
	d, to := open(t, from), filepath.Join(t.TempDir(), "b")
	send := func(names []string) []byte {
		var out bytes.Buffer
		require.NoError(t, d.Send(t.Context(), &out, names, func(int) {}))
		return out.Bytes()
	}
	all, err := arrive(t, to, send(nil))
	require.NoError(t, err)
	require.Len(t, all, len(filesOf(t, from))-1)

	whole := send(all)
	_, err = arrive(t, to, whole[:len(whole)*2/3])
	require.Equal(t, sluice.Unprocessable, sluice.CodeOf(err), "%v", err)
	missing, err := arrive(t, to, send(nil))
	require.NoError(t, err)
	require.NotEmpty(t, missing)
	require.Less(t, len(missing), len(all))

	truncate(t, filepath.Join(to, "SHA256SUMS"))
	put(t, filepath.Join(to, "left-over"), "x")
	put(t, filepath.Join(to, "data", "x.part"), "x")
	missing, err = arrive(t, to, send(missing))
	require.NoError(t, err)
	require.Equal(t, []string{"SHA256SUMS"}, missing, "a damaged file is sent again")
	missing, err = arrive(t, to, send(missing))
	require.NoError(t, err)
	require.Empty(t, missing)
	require.Equal(t, filesOf(t, from), filesOf(t, to))

	require.ErrorContains(t, d.Send(t.Context(), io.Discard, []string{"/etc/passwd"}, func(int) {}), "not in the manifest")
}

// raw is a file of a hostile tar stream.
type raw struct {
	head    tar.Header
	content string
}

// S3-74: a stream names no file that its manifest does not declare, although the tar format permits it.
func TestRedTeam_HostileTarStreamIsRefused(t *testing.T) {
	t.Parallel()
	from, _ := writeDirectory(t, headerOf(sluice.DepthFull, 40, 60), large())
	files := filesOf(t, from)
	manifest := raw{tar.Header{Name: "manifest.json"}, files["manifest.json"]}
	entries := raw{tar.Header{Name: "entries-00001.ndjson"}, files["entries-00001.ndjson"]}
	named := func(name string) raw { return raw{tar.Header{Name: name}, "x"} }
	typed := func(kind byte, name string) raw {
		return raw{tar.Header{Name: name, Typeflag: kind, Linkname: "/etc/passwd"}, ""}
	}
	for name, c := range map[string]struct {
		files []raw
		want  string
	}{
		"no manifest":             {[]raw{entries}, "does not begin"},
		"another file first":      {[]raw{named("a.txt"), manifest}, "does not begin"},
		"a manifest elsewhere":    {[]raw{named("x/manifest.json")}, "does not begin"},
		"a link as manifest":      {[]raw{typed(tar.TypeSymlink, "manifest.json")}, "no regular file"},
		"no manifest's text":      {[]raw{named("manifest.json")}, "bundle"},
		"a way out":               {[]raw{manifest, named("../entries-00001.ndjson")}, "not in the manifest"},
		"a way back in":           {[]raw{manifest, named("data/../entries-00001.ndjson")}, "not in the manifest"},
		"the root":                {[]raw{manifest, named("/entries-00001.ndjson")}, "not in the manifest"},
		"a dot":                   {[]raw{manifest, named("./entries-00001.ndjson")}, "not in the manifest"},
		"a back slash":            {[]raw{manifest, named(`data\x.txt`)}, "not in the manifest"},
		"upper case":              {[]raw{manifest, named("ENTRIES-00001.ndjson")}, "not in the manifest"},
		"a wide digit":            {[]raw{manifest, named("entries-0000\uff11.ndjson")}, "not in the manifest"},
		"an invisible character":  {[]raw{manifest, named("entries-00001.ndjson\u200b")}, "not in the manifest"},
		"a reversed name":         {[]raw{manifest, named("\u202entries-00001.ndjson")}, "not in the manifest"},
		"a partial name":          {[]raw{manifest, named("entries-00001.ndjson.part")}, "not in the manifest"},
		"a symbolic link":         {[]raw{manifest, typed(tar.TypeSymlink, "entries-00001.ndjson")}, "no regular file"},
		"a hard link":             {[]raw{manifest, typed(tar.TypeLink, "entries-00001.ndjson")}, "no regular file"},
		"a device":                {[]raw{manifest, typed(tar.TypeChar, "entries-00001.ndjson")}, "no regular file"},
		"a pipe":                  {[]raw{manifest, typed(tar.TypeFifo, "entries-00001.ndjson")}, "no regular file"},
		"a directory":             {[]raw{manifest, typed(tar.TypeDir, "entries-00001.ndjson/")}, "no regular file"},
		"the same file twice":     {[]raw{manifest, entries, entries}, "twice"},
		"the manifest twice":      {[]raw{manifest, manifest}, "twice"},
		"a larger file":           {[]raw{manifest, {entries.head, entries.content + "\n"}}, "declares"},
		"a smaller file":          {[]raw{manifest, {entries.head, entries.content[1:]}}, "declares"},
		"another file":            {[]raw{manifest, {entries.head, "x" + entries.content[1:]}}, "not the file"},
		"a file that was removed": {[]raw{manifest, {entries.head, ""}}, "declares"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			w := tar.NewWriter(&out)
			for _, f := range c.files {
				f.head.Size, f.head.Mode = int64(len(f.content)), 0o644
				require.NoError(t, w.WriteHeader(&f.head))
				_, err := io.WriteString(w, f.content)
				require.NoError(t, err)
			}
			require.NoError(t, w.Close())
			parent := t.TempDir()
			_, err := arrive(t, filepath.Join(parent, "b"), out.Bytes())
			require.Equal(t, sluice.Unprocessable, codeOf(err), "%v", err)
			require.ErrorContains(t, err, c.want)
			for path := range filesOf(t, parent) {
				require.Contains(t, []string{"b/manifest.json", "b/entries-00001.ndjson"}, path)
			}
		})
	}
}

// A sparse file would be larger than its bytes in the stream.
func TestRedTeam_SparseFileIsRefused(t *testing.T) {
	t.Parallel()
	from, _ := writeDirectory(t, headerOf(sluice.DepthFull, 40, 60), large())
	var out bytes.Buffer
	require.NoError(t, open(t, from).Send(t.Context(), &out, nil, func(int) {}))
	stream := out.Bytes()[:out.Len()-1024] // without the end
	out = *bytes.NewBuffer(bytes.Clone(stream))
	// A header of the old GNU format, whose real size is in the field behind the sparse map.
	block := make([]byte, 512)
	copy(block, "entries-00001.ndjson")
	copy(block[100:], "0000644\x00")
	copy(block[124:], "00000000000\x00")
	block[156] = 'S'
	copy(block[257:], "ustar  \x00")
	copy(block[483:], "00077777777\x00")
	copy(block[148:], "        ")
	sum := 0
	for _, b := range block {
		sum += int(b)
	}
	copy(block[148:], []byte{byte('0' + sum>>15&7), byte('0' + sum>>12&7), byte('0' + sum>>9&7), byte('0' + sum>>6&7), byte('0' + sum>>3&7), byte('0' + sum&7), 0, ' '})
	out.Write(block)
	out.Write(make([]byte, 1024))
	_, err := arrive(t, filepath.Join(t.TempDir(), "b"), out.Bytes())
	require.Equal(t, sluice.Unprocessable, codeOf(err), "%v", err)
	require.ErrorContains(t, err, "no regular file")
}

// codeOf returns the code of an error or of one that it joins.
func codeOf(err error) sluice.Code {
	if e, ok := errors.AsType[*sluice.Error](err); ok {
		return e.Code
	}
	return sluice.CodeOf(err)
}
