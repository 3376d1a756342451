package mirror_test

import (
	"bytes"
	"crypto/ed25519"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/bundle"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// A bundle of a range that was given up is refused with the range, however many events above the label came since.
func TestImport_OfAnAcceptedGapIsRefused(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	low := newSource(t, f, rand.New(rand.NewPCG(1, 4)), "low")
	newSource(t, f, low.Rand, "high")
	mirrorOf(t, low, "m", "high", siteURL+"low")
	f.labels.set("high", sluice.Label{Level: sluice.LevelInternal})
	keeper := f.engines[0].Keeper()
	_, err := keeper.Trust(t.Context(), "high", bundle.NewJWK(f.key.Public().(ed25519.PublicKey)), siteURL+"low", "root")
	require.NoError(t, err)
	imports := func(since, through uint64) error {
		w, err := bundle.NewDocumentWriter(sluice.DepthFull.Scope(), since)
		require.NoError(t, err)
		for seq := since + 1; seq <= through; seq++ {
			ev := sluice.Event{Seq: seq, ID: fmt.Sprint("e", seq), Path: "/a/1", Type: "t", Data: []byte(`1`)}
			ev.Extensions = map[string]string{sluice.AttributeClassification: "SECRET"}
			require.NoError(t, w.Append(bundle.Entry{Change: sluice.ChangeOf(ev)}))
		}
		text, _, err := w.Seal(bundle.Header{SourceID: siteURL + "low", Incarnation: "i", Since: since, Through: through, First: 1, ExportedAt: time.Now()}, f.key)
		require.NoError(t, err)
		doc, err := bundle.ReadDocument(bytes.NewReader(text))
		require.NoError(t, err)
		_, err = keeper.Import(t.Context(), "high", doc, true, "root")
		return err
	}
	require.NoError(t, imports(20, 200))
	gaps, err := f.copies.Gaps(t.Context(), "m")
	require.NoError(t, err)
	require.Equal(t, []any{100, sluice.GapLabel}, []any{len(gaps), gaps[0].Cause})
	err = imports(5, 10)
	require.Equal(t, sluice.BundleGap, sluice.CodeOf(err), "%v", err)
	require.ErrorContains(t, err, "the gap from 1 to 20 was accepted")
}
