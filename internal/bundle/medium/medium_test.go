package medium_test

import (
	"crypto/ed25519"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/bundle"
	"github.com/sluice-io/sluice/internal/bundle/medium"
	"github.com/sluice-io/sluice/pkg/sluice"
)

const source = "https://low.example/v1/namespaces/orders"

// puts writes a bundle of a range onto a medium, and returns its digest.
func puts(t *testing.T, dir string, since, through uint64, change func(*bundle.Header)) string {
	t.Helper()
	w, err := bundle.NewDocumentWriter("entries", since)
	require.NoError(t, err)
	if through > since {
		require.NoError(t, w.Append(bundle.Entry{Change: sluice.Change{Op: sluice.OpWrite, Event: sluice.Event{Seq: through, ID: "e", Path: "/a", Type: "t"}}}))
	}
	h := bundle.Header{SourceID: source, SourceName: "orders", Incarnation: "log", Since: since, Through: through, First: 1, ExportedAt: time.Unix(int64(1+through), 0)}
	if change != nil {
		change(&h)
	}
	text, h, err := w.Seal(h, ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)))
	require.NoError(t, err)
	digest, err := h.Digest()
	require.NoError(t, err)
	require.NoError(t, medium.Write(filepath.Join(dir, medium.Name(h.SourceName, &h, false)), text))
	return digest
}

func receipt(t *testing.T, dir, digest string, through uint64) {
	t.Helper()
	text, err := bundle.SignReceipt(bundle.Receipt{
		Importer: "high", SourceID: source, Incarnation: "log", Scope: "entries", Bundle: digest, Through: through, At: time.Unix(9, 0),
	}, ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)))
	require.NoError(t, err)
	require.NoError(t, medium.Write(filepath.Join(dir, medium.ReceiptName("orders")), text))
}

// S3-74: bundles are imported in the order of their ranges, and other files on the medium do not matter.
func TestScan_FindsBundlesInTheirOrder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	puts(t, dir, 9, 12, nil)
	puts(t, dir, 0, 9, nil)
	puts(t, dir, 9, 9, nil)
	puts(t, dir, 0, 3, func(h *bundle.Header) { h.SourceID, h.SourceName = source+"2", "other" })
	receipt(t, dir, strings.Repeat("a", 64), 9)
	for _, name := range []string{"read.me", "other.json", "left-1-2.json.part"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(`{"format":"x"}`), 0o600))
	}
	require.NoError(t, os.Mkdir(filepath.Join(dir, "orders"), 0o700))
	found, err := medium.Scan(dir)
	require.NoError(t, err)
	names := make([]string, len(found))
	for i := range found {
		names[i] = filepath.Base(found[i].Path)
	}
	require.Equal(t, []string{
		"orders-0000000000000000-0000000000000009.json", "orders.heartbeat.json", "orders-0000000000000009-0000000000000012.json",
		"other-0000000000000000-0000000000000003.json",
	}, names)

	one, err := medium.Scan(found[0].Path)
	require.NoError(t, err)
	require.Equal(t, found[:1], one)
	_, err = medium.Scan(filepath.Join(dir, "read.me"))
	require.ErrorContains(t, err, "is no bundle")
	_, err = medium.Scan(filepath.Join(dir, "missing"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

// S3-61: the next export begins behind the last bundle, the heartbeat behind it, or the receipt.
func TestLast_IsTheFurthestThatIsKnown(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	last := func() *medium.Place {
		p, err := medium.Last(dir, "orders")
		require.NoError(t, err)
		return p
	}
	require.Nil(t, last())
	puts(t, dir, 0, 3, func(h *bundle.Header) { h.SourceName = "other" })
	require.Nil(t, last())
	puts(t, dir, 0, 3, nil)
	digest := puts(t, dir, 3, 7, nil)
	want := &medium.Place{Source: source, Incarnation: "log", Depth: sluice.DepthFull, Through: 7, Digest: digest}
	require.Equal(t, want, last())
	puts(t, dir, 7, 7, func(h *bundle.Header) { h.Previous = digest })
	require.Equal(t, want, last())
	receipt(t, dir, strings.Repeat("b", 64), 3)
	require.Equal(t, want, last(), "the receipt is for an earlier bundle")

	require.NoError(t, os.Remove(filepath.Join(dir, "orders-0000000000000003-0000000000000007.json")))
	require.Equal(t, want, last(), "the heartbeat names the bundle before it")
	receipt(t, dir, strings.Repeat("b", 64), 9)
	require.Equal(t, uint64(9), last().Through)
	require.Equal(t, strings.Repeat("b", 64), last().Digest)

	none, err := medium.Last(filepath.Join(dir, "missing"), "orders")
	require.NoError(t, err)
	require.Nil(t, none)
}

// Two bundles through one sequence, and bundles of two logs, have no end to go on behind.
func TestLast_ContradictionsAreRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	puts(t, dir, 0, 3, nil)
	receipt(t, dir, strings.Repeat("b", 64), 3)
	_, err := medium.Last(dir, "orders")
	require.ErrorContains(t, err, "two bundles through sequence 3")
	puts(t, dir, 3, 7, func(h *bundle.Header) { h.Incarnation = "another" })
	_, err = medium.Last(dir, "orders")
	require.ErrorContains(t, err, "different sources, logs or depths")
	for _, text := range []string{"{", `{"scope":"all"}`} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "x.receipt.json"), []byte(text), 0o600))
		_, err = medium.Last(dir, "x")
		require.ErrorContains(t, err, "is no receipt")
	}
}

// The name of a source comes from a bundle, and names no file elsewhere.
func TestReceiptName_StaysOnTheMedium(t *testing.T) {
	t.Parallel()
	require.Equal(t, "orders.receipt.json", medium.ReceiptName("orders"))
	for _, name := range []string{"", "../x", "a/b", "A", "..", "a\x00b"} {
		require.Equal(t, "bundle.receipt.json", medium.ReceiptName(name))
	}
}

// Exports of two processes into one medium would overwrite each other; a file is there whole, or not at all.
func TestMedium_HasOneWriter(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	unlock, err := medium.Lock(dir)
	require.NoError(t, err)
	_, err = medium.Lock(dir)
	require.ErrorContains(t, err, "another process exports into it")
	require.NoError(t, unlock())
	unlock, err = medium.Lock(dir)
	require.NoError(t, err)
	require.NoError(t, unlock())

	require.NoError(t, os.Mkdir(filepath.Join(dir, "taken"), 0o700))
	require.Error(t, medium.Write(filepath.Join(dir, "taken"), []byte("x")))
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 1, "nothing but the directory that was there")
}
