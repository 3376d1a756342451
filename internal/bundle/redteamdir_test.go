package bundle_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gowebpki/jcs"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/bundle"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// refusedDirectory returns the code of the error with which a directory is refused.
func refusedDirectory(t *testing.T, dir string, trust bundle.Trust) (sluice.Code, error) {
	t.Helper()
	d, err := bundle.OpenDirectory(dir)
	if err == nil {
		_, err = d.Verify(t.Context(), trust)
		require.NoError(t, d.Close())
	}
	require.Error(t, err)
	return sluice.CodeOf(err), err
}

func manifestOf(t *testing.T, dir string) []byte {
	t.Helper()
	text, err := os.ReadFile(dir + "/manifest.json")
	require.NoError(t, err)
	return text
}

// restate replaces the manifest and lists it in SHA256SUMS.
func restate(t *testing.T, dir string, manifest []byte) {
	t.Helper()
	put(t, dir+"/manifest.json", string(manifest))
	sums, err := os.ReadFile(dir + "/SHA256SUMS")
	require.NoError(t, err)
	_, rest, _ := strings.Cut(string(sums), "\n")
	sum := sha256.Sum256(manifest)
	put(t, dir+"/SHA256SUMS", hex.EncodeToString(sum[:])+"  manifest.json\n"+rest)
}

// resign signs the manifest of a directory, also of a wrong one, and lists its files.
func resign(t *testing.T, dir string, change func(m map[string]any), key ed25519.PrivateKey) {
	t.Helper()
	m, ok := parsed(t, manifestOf(t, dir)).(map[string]any)
	require.True(t, ok)
	change(m)
	delete(m, "signature")
	text, err := json.Marshal(m)
	require.NoError(t, err)
	body, err := jcs.Transform(text)
	require.NoError(t, err)
	kind := "application/vnd.sluice.bundle.manifest+json"
	m["signature"] = ed25519.Sign(key, fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(kind), kind, len(body), body))
	text, err = json.Marshal(m)
	require.NoError(t, err)
	put(t, dir+"/SHA256SUMS", "\n")
	restate(t, dir, canonicalFiles(t, text))
	sums := new(strings.Builder)
	sum := sha256.Sum256(manifestOf(t, dir))
	fmt.Fprintf(sums, "%x  manifest.json\n", sum)
	for _, item := range m["files"].([]any) {
		f, _ := item.(map[string]any)
		fmt.Fprintf(sums, "%s  %s\n", f["sha256"], f["name"])
	}
	put(t, dir+"/SHA256SUMS", sums.String())
}

// canonicalFiles returns a manifest without HTML escapes.
func canonicalFiles(t *testing.T, text []byte) []byte {
	t.Helper()
	text, err := jcs.Transform(text)
	require.NoError(t, err)
	return text
}

// fileIn returns the description of a file in a manifest.
func fileIn(m map[string]any, prefix string) map[string]any {
	for _, item := range m["files"].([]any) {
		if f := item.(map[string]any); strings.HasPrefix(f["name"].(string), prefix) {
			return f
		}
	}
	return nil
}

// rewrite changes the entries of a directory, and signs the manifest for them.
func rewrite(t *testing.T, dir, from, to string) {
	t.Helper()
	name := dir + "/entries-00001.ndjson"
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Contains(t, string(text), from)
	text = []byte(strings.Replace(string(text), from, to, 1))
	put(t, name, string(text))
	resign(t, dir, func(m map[string]any) {
		f := fileIn(m, "entries-")
		f["sha256"], f["size"] = fmt.Sprintf("%x", sha256.Sum256(text)), len(text)
	}, keyOf(1))
}

func TestRedTeam_ResignedDirectoryIsGood(t *testing.T) { // or the tests below say nothing
	t.Parallel()
	dir, _ := writeDirectory(t, headerOf(sluice.DepthFull, 40, 60), large())
	resign(t, dir, func(map[string]any) {}, keyOf(1))
	c, err := open(t, dir).Verify(t.Context(), trusting(t, 1))
	require.NoError(t, err)
	require.Equal(t, large(), entriesOf(t, c, 0))
}

func TestRedTeam_TamperedManifestIsRefused(t *testing.T) {
	t.Parallel()
	h := headerOf(sluice.DepthFull, 40, 60)
	h.Lost = []sluice.Gap{{From: 48, To: 49}}
	dir, _ := writeDirectory(t, h, large())
	text := manifestOf(t, dir)
	tried := 0
	variants(parsed(t, text), func(what string, changed any) {
		forged, err := json.Marshal(changed)
		require.NoError(t, err)
		same, err := jcs.Transform(forged)
		require.NoError(t, err)
		if original, err := jcs.Transform(text); err == nil && bytes.Equal(original, same) {
			return
		}
		restate(t, dir, same)
		code, _ := refusedDirectory(t, dir, trusting(t, 1))
		require.Contains(t, []sluice.Code{sluice.Unprocessable, sluice.BundleSignatureInvalid, sluice.UnknownKey}, code, what)
		tried++
	})
	require.Greater(t, tried, 150)
}

// One byte changed, added or removed in any file is refused.
func TestRedTeam_TamperedFileIsRefused(t *testing.T) {
	t.Parallel()
	dir, _ := writeDirectory(t, headerOf(sluice.DepthFull, 40, 60), large())
	for name, text := range filesOf(t, dir) {
		path := filepath.Join(dir, name)
		for at := 0; at < len(text); at += 1 + len(text)/50 {
			put(t, path, text[:at]+string(text[at]^1)+text[at+1:])
			_, err := refusedDirectory(t, dir, trusting(t, 1))
			require.Error(t, err)
		}
		for _, forged := range []string{text + "\n", text[:len(text)-1], "", strings.Repeat(" ", len(text))} {
			put(t, path, forged)
			_, err := refusedDirectory(t, dir, trusting(t, 1))
			require.Error(t, err)
		}
		require.NoError(t, os.Remove(path))
		_, err := refusedDirectory(t, dir, trusting(t, 1))
		require.ErrorContains(t, err, "missing", name)
		put(t, path, text)
	}
	_, err := open(t, dir).Verify(t.Context(), trusting(t, 1))
	require.NoError(t, err)
}

func TestRedTeam_OnlyTheKeyOfTheSourceSignsDirectories(t *testing.T) {
	t.Parallel()
	dir, h := writeDirectory(t, headerOf(sluice.DepthFull, 40, 60), large())
	code, _ := refusedDirectory(t, dir, trusting(t, 2))
	require.Equal(t, sluice.UnknownKey, code)
	resign(t, dir, func(map[string]any) {}, keyOf(2))
	code, _ = refusedDirectory(t, dir, trusting(t, 1, 2))
	require.Equal(t, sluice.BundleSignatureInvalid, code)
	resign(t, dir, func(m map[string]any) { m["kid"] = bundle.KeyID(publicOf(2)) }, keyOf(1))
	code, _ = refusedDirectory(t, dir, trusting(t, 1, 2))
	require.Equal(t, sluice.BundleSignatureInvalid, code)
	resign(t, dir, func(m map[string]any) { m["kid"], m["alg"] = h.KeyID, "none" }, keyOf(1))
	code, _ = refusedDirectory(t, dir, trusting(t, 1))
	require.Equal(t, sluice.Unprocessable, code)
}

// A signature over one form does not verify the other, nor a receipt.
func TestRedTeam_SignatureOfAnotherFormIsNoSignature(t *testing.T) {
	t.Parallel()
	dir, _ := writeDirectory(t, headerOf(sluice.DepthFull, 40, 40), nil)
	var m map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(manifestOf(t, dir), &m))
	delete(m, "files")
	m["entries"] = json.RawMessage(`[]`)
	text, err := json.Marshal(m)
	require.NoError(t, err)
	code, _ := refusedDocument(t, text, trusting(t, 1))
	require.Equal(t, sluice.BundleSignatureInvalid, code)

	text, _ = write(t, header(40, 40), sluice.DepthFull, nil, keyOf(1))
	require.NoError(t, json.Unmarshal(text, &m))
	delete(m, "entries")
	m["files"] = json.RawMessage(`[]`)
	text, err = json.Marshal(m)
	require.NoError(t, err)
	restate(t, dir, canonicalFiles(t, text))
	code, _ = refusedDirectory(t, dir, trusting(t, 1))
	require.Equal(t, sluice.BundleSignatureInvalid, code)
}

// Even the key of the source makes no directory valid that lies about its files.
func TestRedTeam_SignedLiesAboutFilesAreRefused(t *testing.T) {
	t.Parallel()
	rename := func(prefix, name string) func(map[string]any) {
		return func(m map[string]any) { fileIn(m, prefix)["name"] = name }
	}
	size := func(prefix string, size any) func(map[string]any) {
		return func(m map[string]any) { fileIn(m, prefix)["size"] = size }
	}
	for name, tt := range map[string]struct {
		change func(m map[string]any)
		want   string
	}{
		"a file outside":          {rename("data/", "../outside.txt"), "no name"},
		"a file at the root":      {rename("data/", "/etc/passwd"), "no name"},
		"a way back":              {rename("data/", "data/../../outside.txt"), "no name"},
		"a way back in Windows":   {rename("data/", `data/..\..\outside.txt`), "no name"},
		"a drive":                 {rename("data/", `C:\outside.txt`), "no name"},
		"a device":                {rename("data/", "data/NUL"), "no name"},
		"NUL in a name":           {rename("data/", "data/a\x00.txt"), "no name"},
		"a name in upper case":    {rename("entries-", "ENTRIES-00001.ndjson"), "out of order"},
		"a second file first":     {rename("entries-", "entries-00002.ndjson"), "no name"},
		"the manifest itself":     {rename("entries-", "manifest.json"), "no name"},
		"a deeper directory":      {rename("data/", "data/"+strings.Repeat("a", 64)+".txt/x"), "no name"},
		"an ending of two parts":  {rename("data/", "data/"+strings.Repeat("a", 64)+".tar.gz"), "no name"},
		"another digest's name":   {rename("data/", "data/"+strings.Repeat("0", 64)+".txt"), "not named by its digest"},
		"the same file twice":     {func(m map[string]any) { m["files"] = append(m["files"].([]any), m["files"].([]any)[0]) }, "twice"},
		"files out of order":      {func(m map[string]any) { l := m["files"].([]any); l[0], l[1] = l[1], l[0] }, "out of order"},
		"a larger size":           {size("data/", 64<<20), "not the file"},
		"a smaller size":          {size("entries-", 10), "no regular file of at most"},
		"a size of everything":    {size("data/", json.Number("9007199254740992")), "bytes"},
		"a size above its type":   {size("data/", json.Number("1e30")), "another form"},
		"a negative size":         {size("data/", -1), "bytes"},
		"no size":                 {size("data/", 0), "bytes"},
		"a fraction as size":      {size("data/", 1.5), "another form"},
		"another digest":          {func(m map[string]any) { fileIn(m, "entries-")["sha256"] = strings.Repeat("a", 64) }, "not the file"},
		"a digest in upper case":  {func(m map[string]any) { fileIn(m, "entries-")["sha256"] = strings.Repeat("A", 64) }, "digest"},
		"an unknown member":       {func(m map[string]any) { fileIn(m, "entries-")["mode"] = "0777" }, "another form"},
		"too many entries":        {func(m map[string]any) { m["count"] = 13 }, "not 13"},
		"too few entries":         {func(m map[string]any) { m["count"] = 11 }, "not 11"},
		"another range":           {func(m map[string]any) { m["since_sequence"] = 42 }, "out of order"},
		"an earlier end":          {func(m map[string]any) { m["through_sequence"] = 55 }, "behind"},
		"other entries":           {func(m map[string]any) { m["entries_sha256"] = strings.Repeat("a", 64) }, "entries_sha256"},
		"a smaller scope":         {func(m map[string]any) { m["scope"] = "claims" }, "scope"},
		"no entries":              {func(m map[string]any) { m["count"], m["heartbeat"] = 0, true }, "0 entries"},
		"files without entries":   {func(m map[string]any) { m["files"] = []any{} }, "0 files"},
		"an undeclared file":      {func(m map[string]any) { m["files"] = m["files"].([]any)[1:] }, "not in the manifest"},
		"files that are no list":  {func(m map[string]any) { m["files"] = []any{1} }, "another form"},
		"an entry without data":   {nil, "not in the manifest"},
		"data without an entry":   {nil, "refers"},
		"data at another place":   {nil, "not in the manifest"},
		"base64 in an entry":      {nil, "belongs"},
		"much content inside":     {nil, "belongs"},
		"the same sequence twice": {nil, "out of order"},
		"an empty line":           {nil, "form"},
		"a line without an end":   {nil, "ends within"},
		"an object in two lines":  {nil, "form"},
		"a member twice":          {nil, "form"},
		"a member in two places":  {nil, "form"},
		"white space":             {nil, "form"},
		"another escape":          {nil, "form"},
		"content and a file":      {nil, "form"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, _ := writeDirectory(t, headerOf(sluice.DepthFull, 40, 60), large())
			if tt.change != nil {
				resign(t, dir, tt.change, keyOf(1))
			} else {
				from, to := lineChange(t, dir, name)
				rewrite(t, dir, from, to)
			}
			code, err := refusedDirectory(t, dir, trusting(t, 1))
			require.Equal(t, sluice.Unprocessable, code)
			require.ErrorContains(t, err, tt.want)
		})
	}
}

// lineChange returns a part of the entries of a directory, and what an attacker writes in its place.
func lineChange(t *testing.T, dir, name string) (from, to string) {
	t.Helper()
	files := filesOf(t, dir)
	text := files["entries-00001.ndjson"]
	_, rest, _ := strings.Cut(text, `"content_file":"`)
	file, _, _ := strings.Cut(rest, `"`)
	switch name {
	case "an entry without data":
		return file, "data/" + strings.Repeat("a", 64) + ".bin"
	case "data without an entry":
		return `"content":null,"content_file":"` + file + `"`, `"content":"x"`
	case "data at another place":
		return file, "../manifest.json"
	case "base64 in an entry":
		return `"content":null,"content_file":"` + file + `"`, `"content":"AP8A","content_encoding":"base64"`
	case "much content inside":
		return strings.Repeat("x", 64<<10), strings.Repeat("x", 64<<10+1)
	case "the same sequence twice":
		return `"sequence":42`, `"sequence":41`
	case "an empty line":
		return "\n", "\n\n"
	case "a line without an end":
		return text, text[:len(text)-1]
	case "an object in two lines":
		return `,"op":`, ",\n\"op\":"
	case "a member twice":
		return `"op":"write"`, `"op":"write","op":"write"`
	case "a member in two places":
		return `"entry_id":"e-1","op":"write"`, `"op":"write","entry_id":"e-1"`
	case "white space":
		return `"op":"write"`, `"op": "write"`
	case "another escape":
		return `"op":"write"`, `"op":"\u0077rite"`
	}
	return `"content":"{`, `"content_file":"` + file + `","content":"{`
}

func TestRedTeam_OtherThanRegularFilesAreRefused(t *testing.T) {
	t.Parallel()
	outside := filepath.Join(t.TempDir(), "outside")
	for name, change := range map[string]func(dir, entries string){
		"an undeclared file":      func(dir, _ string) { put(t, dir+"/notes.txt", "x") },
		"an undeclared data file": func(dir, _ string) { put(t, dir+"/data/"+strings.Repeat("a", 64)+".txt", "x") },
		"an undeclared directory": func(dir, _ string) { require.NoError(t, os.Mkdir(dir+"/more", 0o700)) },
		"a hidden file":           func(dir, _ string) { put(t, dir+"/.DS_Store", "x") },
		"an unfinished file":      func(dir, _ string) { put(t, dir+"/entries-00002.ndjson.part", "x") },
		"a link to the same text": func(_, entries string) { move(t, entries, outside+"1"); link(t, outside+"1", entries) },
		"a link within":           func(dir, entries string) { move(t, entries, dir+"/receipt.json"); link(t, "receipt.json", entries) },
		"a link for the manifest": func(dir, _ string) {
			move(t, dir+"/manifest.json", outside+"2")
			link(t, outside+"2", dir+"/manifest.json")
		},
		"a link for the data": func(dir, _ string) { move(t, dir+"/data", outside+"3"); link(t, outside+"3", dir+"/data") },
		"an undeclared link":  func(dir, _ string) { link(t, "manifest.json", dir+"/receipt.json") },
		"a directory for a file": func(_, entries string) {
			require.NoError(t, os.Remove(entries))
			require.NoError(t, os.Mkdir(entries, 0o700))
		},
		"a pipe for a file": func(_, entries string) {
			require.NoError(t, os.Remove(entries))
			require.NoError(t, mkfifo(entries, 0o600))
		},
		"a pipe for the manifest": func(dir, _ string) {
			require.NoError(t, os.Remove(dir+"/manifest.json"))
			require.NoError(t, mkfifo(dir+"/manifest.json", 0o600))
		},
		"a pipe for SHA256SUMS": func(dir, _ string) {
			require.NoError(t, os.Remove(dir+"/SHA256SUMS"))
			require.NoError(t, mkfifo(dir+"/SHA256SUMS", 0o600))
		},
		"a manifest without an end": func(dir, _ string) { require.NoError(t, os.Truncate(dir+"/manifest.json", 33<<20)) },
		"sums without an end":       func(dir, _ string) { require.NoError(t, os.Truncate(dir+"/SHA256SUMS", 33<<20)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, _ := writeDirectory(t, headerOf(sluice.DepthFull, 40, 60), large())
			change(dir, dir+"/entries-00001.ndjson")
			code, _ := refusedDirectory(t, dir, trusting(t, 1))
			require.Equal(t, sluice.Unprocessable, code)
		})
	}
	dir, _ := writeDirectory(t, headerOf(sluice.DepthFull, 40, 60), large())
	put(t, dir+"/receipt.json", "{}")
	_, err := open(t, dir).Verify(t.Context(), trusting(t, 1))
	require.NoError(t, err, "a receipt may be put beside it")
	_, err = bundle.OpenDirectory(dir + "/nowhere")
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func move(tb testing.TB, from, to string) {
	tb.Helper()
	require.NoError(tb, os.Rename(from, to))
}

func link(tb testing.TB, to, name string) {
	tb.Helper()
	require.NoError(tb, os.Symlink(to, name))
}
