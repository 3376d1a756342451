package mirror_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/bundle"
	"github.com/sluice-io/sluice/pkg/sluice"
)

var root = sluice.Caller{Principal: sluice.Root}

// replaced returns a fleet with a mirror that is suspended because its source has another log.
func replaced(t *testing.T) (*fleet, *mirrored) {
	t.Helper()
	f := newFleet(t)
	low := newSource(t, f, rand.New(rand.NewPCG(1, 2)), "low")
	newSource(t, f, low.Rand, "high")
	m := mirrorOf(t, low, "m", "high", "low")
	low.publish(t, "/a/1")
	require.NoError(t, f.engines[0].Keeper().Sync(t.Context(), "m"))
	low.anew(t)
	for range 10 {
		low.publish(t, "/a/1")
	}
	require.NoError(t, f.engines[0].Keeper().Sync(t.Context(), "m"))
	require.Equal(t, sluice.MirrorOriginReplaced, m.state(t).Reason)
	return f, m
}

// cursors returns where the entries of the mirror are stored.
func (m *mirrored) cursors(t *testing.T) (all []uint64) {
	t.Helper()
	page, err := m.of.fleet.copies.Page(t.Context(), "m", 0, 1000)
	require.NoError(t, err)
	for _, e := range page.Entries {
		require.Contains(t, m.of.events, e.Change.Event.Seq)
		require.Equal(t, m.of.events[e.Change.Event.Seq].Event.Data, e.Change.Event.Data, "of the present log")
		all = append(all, e.Cursor)
	}
	require.NotEmpty(t, all)
	return all
}

// Issue 16: of two calls that accept another origin at once, one begins the copy anew; the other one removes nothing of it.
func TestResume_TwiceAtOnceBeginsAnewOnce(t *testing.T) {
	t.Parallel()
	f, m := replaced(t)
	var stored []uint64
	ctx := context.WithValue(t.Context(), checked{}, sync.OnceFunc(func() {
		_, err := f.engines[0].Keeper().Resume(t.Context(), "m", root, true)
		require.NoError(t, err)
		require.NoError(t, f.engines[0].Keeper().Sync(t.Context(), "m"))
		stored = m.cursors(t)
	}))
	is, err := f.engines[1].Keeper().Resume(ctx, "m", root, true)
	require.NoError(t, err)
	require.Equal(t, sluice.Active, is.State)
	require.NoError(t, f.engines[1].Keeper().Sync(t.Context(), "m"))
	require.Equal(t, stored, m.cursors(t))
}

// Issue 16: a replica that is late to remove the copy of the former log removes nothing of the present one.
func TestResume_LateRemovalKeepsTheNewCopy(t *testing.T) {
	t.Parallel()
	f, m := replaced(t)
	var stored []uint64
	ctx := context.WithValue(t.Context(), removed{}, sync.OnceFunc(func() {
		require.NoError(t, f.engines[0].Keeper().Sync(t.Context(), "m"))
		stored = m.cursors(t)
	}))
	_, err := f.engines[1].Keeper().Resume(ctx, "m", root, true)
	require.NoError(t, err)
	require.NoError(t, f.engines[1].Keeper().Sync(t.Context(), "m"))
	require.Equal(t, stored, m.cursors(t))
}

// Issue 16: a mirror that is suspended for another reason while it is resumed stays so.
func TestResume_OfAnotherReasonIsDecidedAnew(t *testing.T) {
	t.Parallel()
	f, m := replaced(t)
	keeper := f.engines[0].Keeper()
	accepted := func() {
		_, err := keeper.Resume(t.Context(), "m", root, true)
		require.NoError(t, err)
	}
	accepted()
	_, err := keeper.Suspend(t.Context(), "m", "root")
	require.NoError(t, err)
	ctx := context.WithValue(t.Context(), checked{}, sync.OnceFunc(func() {
		accepted()
		require.NoError(t, keeper.Sync(t.Context(), "m"))
		m.of.anew(t)
		require.NoError(t, keeper.Sync(t.Context(), "m"))
		require.Equal(t, sluice.MirrorOriginReplaced, m.state(t).Reason)
	}))
	_, err = f.engines[1].Keeper().Resume(ctx, "m", root, false)
	require.Equal(t, sluice.Conflict, sluice.CodeOf(err), "%v", err)
	require.Equal(t, sluice.MirrorOriginReplaced, m.state(t).Reason)
}

// S3-126: a bundle that is being applied ends at the step in which its mirror is suspended, and goes on there later.
func TestImport_EndsWhenItsMirrorIsSuspended(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	low := newSource(t, f, rand.New(rand.NewPCG(1, 3)), "low")
	newSource(t, f, low.Rand, "high")
	m := mirrorOf(t, low, "m", "high", siteURL+"low")
	keeper := f.engines[0].Keeper()
	_, err := keeper.Trust(t.Context(), "high", bundle.NewJWK(f.key.Public().(ed25519.PublicKey)), siteURL+"low", "root")
	require.NoError(t, err)
	w, err := bundle.NewDocumentWriter(sluice.DepthFull.Scope(), 0)
	require.NoError(t, err)
	const entries = 2000 // more than two steps
	for i := range uint64(entries) {
		require.NoError(t, w.Append(bundle.Entry{Change: sluice.ChangeOf(sluice.Event{Seq: i + 1, ID: fmt.Sprint("e", i), Path: "/a/1", Type: "t", Data: []byte(`1`)})}))
	}
	text, _, err := w.Seal(bundle.Header{SourceID: siteURL + "low", Incarnation: "i", Through: entries, First: 1, ExportedAt: time.Now()}, f.key)
	require.NoError(t, err)
	imports := func(ctx context.Context) error {
		doc, err := bundle.ReadDocument(bytes.NewReader(text))
		require.NoError(t, err)
		_, err = keeper.Import(ctx, "high", doc, false, "root")
		return err
	}
	stops := sync.OnceFunc(func() {
		_, err := keeper.Suspend(t.Context(), "m", "root")
		require.NoError(t, err)
	})
	steps := 0
	ctx := context.WithValue(t.Context(), meanwhile{}, func() {
		if steps++; steps == 2 { // the first one is that of the place
			stops()
			require.Eventually(t, func() bool {
				return sluice.CodeOf(f.engines[0].Keeper().Sync(t.Context(), "m")) == sluice.MirrorSuspended
			}, time.Minute, time.Millisecond)
		}
	})
	require.Equal(t, sluice.MirrorSuspended, sluice.CodeOf(imports(ctx)))
	m.load(t)
	require.Less(t, m.place.Watermark, uint64(entries))
	require.Equal(t, 2, steps)
	_, err = keeper.Resume(t.Context(), "m", root, false)
	require.NoError(t, err)
	require.NoError(t, imports(t.Context()))
	m.load(t)
	require.EqualValues(t, entries, m.place.Watermark)
	require.Equal(t, entries, m.place.Live)
}
