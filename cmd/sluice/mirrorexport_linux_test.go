package main

import (
	"crypto/ed25519"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/bundle"
	"github.com/sluice-io/sluice/internal/terminal"
	"github.com/sluice-io/sluice/internal/testkit/faulttest"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// exports serves a bundle of 10 entries of 128 KiB, and heartbeats behind it, when wait returns.
func exports(t *testing.T, wait func()) string {
	t.Helper()
	key, noise := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)), rand.NewChaCha8([32]byte{})
	content := make([]byte, 128<<10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		wait()
		q, n := r.URL.Query(), uint64(10)
		h := bundle.Header{SourceID: "http://low/v1/namespaces/ns", SourceName: "ns", Incarnation: "log", Through: n, First: 1, ExportedAt: time.Unix(9, 0)}
		if q.Get("since") == "10" {
			h.Since = n
		}
		if q.Get("form") != "directory" {
			d, _ := bundle.NewDocumentWriter("entries", n)
			text, _, _ := d.Seal(h, key)
			_, _ = w.Write(text)
			return
		}
		to := bundle.NewTarWriter(w)
		d, _ := bundle.NewDirectoryWriter("entries", h.Since, to.Put)
		for seq := h.Since + 1; seq <= n; seq++ {
			_, _ = noise.Read(content)
			_ = d.Append(bundle.Entry{Change: sluice.Change{Op: sluice.OpWrite, Event: sluice.Event{Seq: seq, ID: fmt.Sprint("e", seq), Path: "/a", Type: "t", Data: content}}})
		}
		_, _ = d.Seal(h, key)
		_ = to.Close()
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// S3-61: a medium that is full is told with its remedy, keeps nothing of the bundle that does not fit, and takes it when
// there is space.
func TestMirrorExport_FullMediumKeepsNothing(t *testing.T) {
	t.Parallel()
	dir, resize := faulttest.SmallDisk(t, 600<<10)
	url := exports(t, func() {})
	command := []string{"mirror", "export", "ns", dir, "--depth", "full", "--form", "directory", "--server", url}
	for range 2 {
		status, _, stderr := runUntil(t.Context(), "", command...)
		require.Equal(t, terminal.ExitFailure, status)
		require.Contains(t, stderr, "no space left on device")
		require.Contains(t, stderr, "free space")
		left, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Empty(t, left)
	}
	resize(4 << 20)
	status, stdout, stderr := runUntil(t.Context(), "", command...)
	require.Zero(t, status, stderr)
	require.Contains(t, stdout, "10 entries")
}

// Two exports into one medium at once would write bundles of one range under one name: the second is refused.
func TestMirrorExport_OneAtATimeOnAMedium(t *testing.T) {
	t.Parallel()
	dir, begun, goOn := filepath.Join(t.TempDir(), "medium"), make(chan struct{}, 9), make(chan struct{})
	url := exports(t, func() {
		begun <- struct{}{}
		<-goOn
	})
	command := []string{"mirror", "export", "ns", dir, "--depth", "full", "--form", "directory", "--server", url}
	first := make(chan int, 1)
	go func() {
		status, _, _ := runUntil(t.Context(), "", command...)
		first <- status
	}()
	<-begun
	status, _, stderr := runUntil(t.Context(), "", command...)
	require.Equal(t, terminal.ExitFailure, status)
	require.Contains(t, stderr, "another process exports into it")
	close(goOn)
	require.Zero(t, <-first)
	status, stdout, _ := runUntil(t.Context(), "", command...)
	require.Zero(t, status)
	require.Contains(t, stdout, "nothing new")
}
