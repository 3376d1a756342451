package e2e_test

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/bundle"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// directory exports a directory from a server.
func (s *running) directory(t *testing.T, since uint64) *bundle.Directory {
	t.Helper()
	api, dir := client.New(s.at.HTTP, s.token), filepath.Join(t.TempDir(), "b")
	stream, err := api.ExportDirectory(t.Context(), "default", client.ExportQuery{Since: since, Depth: sluice.DepthFull}, 0)
	require.NoError(t, err)
	_, err = bundle.Receive(t.Context(), stream, dir)
	require.NoError(t, err)
	require.NoError(t, stream.Close())
	d, err := bundle.OpenDirectory(dir)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

// sends sends files of a directory to the importer.
func (g gapped) sends(t *testing.T, d *bundle.Directory, names []string, change func([]byte) []byte) (client.DirectoryImport, error) {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, d.Send(t.Context(), &out, names, func(int) {}))
	stream := out.Bytes()
	if change != nil {
		stream = change(stream)
	}
	return client.New(g.high.at.HTTP, g.high.token).ImportDirectory(t.Context(), "default", bytes.NewReader(stream), false)
}

// S3-69…74: nothing is stored of a manifest that would not be applied, and nothing applied of a directory that has not arrived
// whole. Afterwards nothing is left of it.
func TestBundleDirectory_IsJudgedBeforeItsFiles(t *testing.T) {
	t.Parallel()
	g := newGapped(t)
	g.low.publishes(t, "default", "/a one", "/a two")
	first := g.low.directory(t, 0)
	staged := func() int {
		found, err := os.ReadDir(filepath.Join(g.high.dir, "imports"))
		if !os.IsNotExist(err) {
			require.NoError(t, err)
		}
		return len(found)
	}
	_, err := g.sends(t, first, nil, func(tar []byte) []byte { return bytes.Replace(tar, []byte(`"count": 2`), []byte(`"count": 1`), 1) })
	require.Equal(t, sluice.BundleSignatureInvalid, sluice.CodeOf(err), "%v", err)
	_, err = g.sends(t, first, nil, func(tar []byte) []byte { return bytes.Replace(tar, []byte(`"Ed25519"`), []byte(`"Ed25518"`), 1) })
	require.Equal(t, sluice.Unprocessable, sluice.CodeOf(err), "another algorithm: %v", err)
	g.low.publishes(t, "default", "/a three")
	_, err = g.sends(t, g.low.directory(t, 2), nil, nil)
	require.Equal(t, sluice.BundleGap, sluice.CodeOf(err), "%v", err)
	foreign := start(t, t.TempDir(), nil)
	foreign.publishes(t, "default", "/a one")
	_, err = g.sends(t, foreign.directory(t, 0), nil, nil)
	require.Equal(t, sluice.UnknownKey, sluice.CodeOf(err), "%v", err)
	require.Zero(t, staged())

	part, err := g.sends(t, first, nil, nil)
	require.NoError(t, err)
	require.Equal(t, []string{"SHA256SUMS", "entries-00001.ndjson"}, part.Missing)
	_, err = g.sends(t, first, part.Missing, func(tar []byte) []byte { return bytes.Replace(tar, []byte(`"one"`), []byte(`"ONE"`), 1) })
	require.Equal(t, sluice.Unprocessable, sluice.CodeOf(err), "%v", err)
	require.Empty(t, g.high.mirrorsOf(t, "default"))
	require.Equal(t, 1, staged())

	part, err = g.sends(t, first, nil, nil)
	require.NoError(t, err)
	require.Equal(t, []string{"entries-00001.ndjson"}, part.Missing, "the other file has arrived")
	done, err := g.sends(t, first, part.Missing, nil)
	require.NoError(t, err)
	require.Equal(t, []any{2, uint64(2)}, []any{done.Applied, done.Watermark})
	require.Equal(t, []string{"one 1 one", "two 2 two"}, g.high.mirrorsOf(t, "default"))
	require.Zero(t, staged())

	_, err = g.sends(t, first, nil, nil)
	require.Equal(t, sluice.BundleImported, sluice.CodeOf(err), "a replay is refused before it is sent: %v", err)
	require.Zero(t, staged())
	r := g.high.must(t, http.StatusUnprocessableEntity, "POST /v1/namespaces/default/import", strings.Repeat("x", 2048), "Content-Type", "application/x-tar")
	require.Equal(t, "unprocessable", r.field(t, "error.code"))
}

// A bundle that arrives after its caller has lost the right is not applied.
func TestRevoke_EndsBundlesWithAnOpenBody(t *testing.T) {
	t.Parallel()
	g := newGapped(t)
	g.low.publishes(t, "default", "/a one", "/a two")
	d := g.low.directory(t, 0)
	document, _ := g.low.exports(t, "since=0")
	part, err := g.sends(t, d, nil, nil)
	require.NoError(t, err)
	var tar bytes.Buffer
	require.NoError(t, d.Send(t.Context(), &tar, part.Missing, func(int) {}))
	ann := g.high.grant(t, "user:ann", "scope:default", "admin")
	const at = "POST /v1/namespaces/default/import"
	halves := map[string]half{document: g.high.half(t, ann.token, at, document), tar.String(): g.high.half(t, ann.token, at, tar.String(), "application/x-tar")}
	g.high.must(t, http.StatusOK, "POST /v1/grants/"+ann.id+"/revoke", "")
	for body, h := range halves {
		require.Equal(t, http.StatusUnauthorized, h.ends(t, body))
	}
	require.Empty(t, g.high.mirrorsOf(t, "default"))
	done, err := g.sends(t, d, nil, nil)
	require.NoError(t, err)
	require.Equal(t, 2, done.Applied, "all has arrived")
}

// Uploads that begin and never end are bounded in number and leave nothing: others are told to wait, and import when they are gone.
func TestBundleDirectory_HalfOpenUploadsAreBounded(t *testing.T) {
	t.Parallel()
	g := newGapped(t)
	g.low.publishes(t, "default", "/a one")
	d := g.low.directory(t, 0)
	var stream bytes.Buffer
	require.NoError(t, d.Send(t.Context(), &stream, nil, func(int) {}))
	half := fmt.Sprintf("POST /v1/namespaces/default/import HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/x-tar\r\nContent-Length: %d\r\n\r\n%s",
		g.high.token, 1<<30, stream.Bytes()[:1024])
	const uploads, atOnce = 200, 2
	var refused atomic.Int32
	var ended sync.WaitGroup
	conns := make([]net.Conn, uploads)
	for i := range conns {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(g.high.at.HTTP, "http://"))
		require.NoError(t, err)
		defer func() { _ = conn.Close() }()
		_, err = conn.Write([]byte(half))
		require.NoError(t, err)
		conns[i] = conn
		ended.Go(func() {
			if r, err := http.ReadResponse(bufio.NewReader(conn), nil); err == nil {
				if r.StatusCode == http.StatusServiceUnavailable && r.Header.Get("Retry-After") != "" {
					refused.Add(1)
				}
				_ = r.Body.Close()
			}
		})
	}
	require.Eventually(t, func() bool { return refused.Load() == uploads-atOnce }, patience, 10*time.Millisecond)
	_, err := os.Stat(filepath.Join(g.high.dir, "imports"))
	require.ErrorIs(t, err, os.ErrNotExist, "nothing is stored of them")
	for _, conn := range conns {
		require.NoError(t, conn.Close())
	}
	ended.Wait()
	part, err := g.sends(t, d, nil, nil)
	require.NoError(t, err)
	done, err := g.sends(t, d, part.Missing, nil)
	require.NoError(t, err)
	require.Equal(t, 1, done.Applied)
}

// Importers of one bundle at once apply it once, in either form.
func TestBundle_ImportersAtOnceApplyItOnce(t *testing.T) {
	t.Parallel()
	g := newGapped(t)
	const events, importers = 2500, 4
	g.low.fills(t, "default", events/500)
	text, _ := g.low.exports(t, "since=0")
	d := g.low.directory(t, 0)
	files := []string{"SHA256SUMS", "entries-00001.ndjson"}
	var stream bytes.Buffer
	require.NoError(t, d.Send(t.Context(), &stream, files, func(int) {}))
	var all sync.WaitGroup
	outcomes := make([]error, 2*importers)
	for i := range importers {
		api := client.New(g.high.at.HTTP, g.high.token)
		all.Go(func() { _, outcomes[2*i] = api.ImportBundle(t.Context(), "default", []byte(text), false) })
		all.Go(func() {
			_, outcomes[2*i+1] = api.ImportDirectory(t.Context(), "default", bytes.NewReader(stream.Bytes()), false)
		})
	}
	all.Wait()
	good := 0
	for _, err := range outcomes {
		switch sluice.CodeOf(err) {
		case "":
			good++
		case sluice.BundleImported, sluice.Unavailable, sluice.Conflict:
		default:
			require.NoError(t, err)
		}
	}
	require.Equal(t, 1, good, "%v", outcomes)
	st := g.high.must(t, http.StatusOK, "GET /v1/subscriptions/m/status", "")
	require.Equal(t, []any{float64(events), float64(events), []any{}}, []any{st.field(t, "mirrored_count"), st.field(t, "watermark"), st.field(t, "gaps")})
	left, err := os.ReadDir(filepath.Join(g.high.dir, "imports"))
	if !os.IsNotExist(err) {
		require.NoError(t, err)
	}
	require.Empty(t, left)
}
