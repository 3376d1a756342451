package mirrorstore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/mirror"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/natsstore/mirrorstore"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/internal/testkit/storetest"
	"github.com/sluice-io/sluice/pkg/sluice"
)

var noon = time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)

func open(tb testing.TB) *mirrorstore.Store {
	tb.Helper()
	rooms := storetest.Connect(tb, natsstore.Options{Conn: natstest.New(tb)})
	require.NoError(tb, rooms.Provision(tb.Context()))
	return mirrorstore.New(rooms.Store, 0)
}

func entry(seq uint64, id, data string) mirror.Entry {
	return mirror.Entry{MirroredAt: noon, Change: sluice.ChangeOf(sluice.Event{
		Seq: seq, ID: id, Path: "/a", Type: "t", Source: "/s", Time: noon, ContentType: "application/json", Data: []byte(data),
	})}
}

// S3-27, S3-48, S3-49: entries, gaps and the place are stored in one step, once, and an entry replaces the one with its key.
func TestStore_KeepsAStepWholeOrNotAtAll(t *testing.T) {
	t.Parallel()
	s := open(t)
	gap := sluice.MirrorGap{From: 1, To: 2, Cause: sluice.GapRetention, At: noon}
	first := mirror.Commit{
		Place:   mirror.Place{Incarnation: "i", Watermark: 5, Live: 2},
		Entries: []mirror.Entry{entry(3, "x", `{ "a": "<1>" }`), entry(4, "a b.c/*", `1`)}, Gaps: []sluice.MirrorGap{gap},
	}
	revision, err := s.Commit(t.Context(), "m", first)
	require.NoError(t, err)
	_, err = s.Commit(t.Context(), "m", first)
	require.Equal(t, sluice.Conflict, sluice.CodeOf(err), "the place has moved")

	held, err := s.Hold(t.Context(), "m", []string{"x", "a b.c/*", "unknown"})
	require.NoError(t, err)
	require.Equal(t, revision, held.Place.Revision)
	require.EqualValues(t, 5, held.Place.Watermark)
	require.Len(t, held.Entries, 2)
	require.Equal(t, entry(3, "x", `{ "a": "<1>" }`).Change, held.Entries["x"].Change, "byte for byte")
	require.Equal(t, entry(4, "a b.c/*", `1`).Change, held.Entries["a b.c/*"].Change)

	second := mirror.Commit{Place: mirror.Place{Incarnation: "i", Watermark: 9, Revision: revision}, Entries: []mirror.Entry{entry(7, "x", `2`)}}
	_, err = s.Commit(t.Context(), "m", second)
	require.NoError(t, err)
	page, err := s.Page(t.Context(), "m", 0, 1)
	require.NoError(t, err)
	require.True(t, page.More)
	require.Equal(t, "a b.c/*", page.Entries[0].Change.Event.ID, "in the order of the last change")
	page, err = s.Page(t.Context(), "m", page.Next, 10)
	require.NoError(t, err)
	require.False(t, page.More)
	require.Len(t, page.Entries, 1)
	require.Equal(t, `2`, string(page.Entries[0].Change.Event.Data))
	gaps, err := s.Gaps(t.Context(), "m")
	require.NoError(t, err)
	require.Equal(t, []sluice.MirrorGap{gap}, gaps)
}

// S3-98, S3-110: what a mirror has goes with it, and nothing of another one.
func TestPurge_RemovesOneMirror(t *testing.T) {
	t.Parallel()
	s := open(t)
	for _, id := range []string{"m", "mm"} {
		_, err := s.Commit(t.Context(), id, mirror.Commit{Place: mirror.Place{Watermark: 1}, Entries: []mirror.Entry{entry(1, "x", `1`)}})
		require.NoError(t, err)
	}
	require.NoError(t, s.Purge(t.Context(), "m"))
	for id, want := range map[string]int{"m": 0, "mm": 1} {
		held, err := s.Hold(t.Context(), id, []string{"x"})
		require.NoError(t, err)
		require.Len(t, held.Entries, want, id)
		require.EqualValues(t, want, held.Place.Watermark, id)
		held, err = s.Hold(t.Context(), id, nil)
		require.NoError(t, err)
		require.EqualValues(t, want, held.Place.Watermark, id)
		page, err := s.Page(t.Context(), id, 0, 10)
		require.NoError(t, err)
		require.Len(t, page.Entries, want, id)
	}
}

// S3-58: a tombstone is removed after its time.
func TestCommit_TombstonesExpire(t *testing.T) {
	t.Parallel()
	rooms := storetest.Connect(t, natsstore.Options{Conn: natstest.New(t)})
	require.NoError(t, rooms.Provision(t.Context()))
	s := mirrorstore.New(rooms.Store, time.Second)
	gone := entry(1, "x", ``)
	gone.TombstonedAt = noon
	_, err := s.Commit(t.Context(), "m", mirror.Commit{Entries: []mirror.Entry{gone, entry(2, "y", `1`)}})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		held, err := s.Hold(t.Context(), "m", []string{"x", "y"})
		return err == nil && len(held.Entries) == 1
	}, 30*time.Second, 20*time.Millisecond)
}

func BenchmarkStep(b *testing.B) {
	s := open(b)
	at := mirror.Place{Incarnation: "i"}
	data := fmt.Sprintf(`{"text":%q}`, string(make([]byte, 100))+fmt.Sprintf("%0900d", 0))
	keys := make([]string, 100)
	for b.Loop() {
		c := mirror.Commit{Place: at}
		for i := range keys {
			c.Place.Watermark++
			keys[i] = fmt.Sprint("e", c.Place.Watermark)
			c.Entries = append(c.Entries, entry(c.Place.Watermark, keys[i], data))
		}
		held, err := s.Hold(b.Context(), "m", keys)
		require.NoError(b, err)
		require.Equal(b, at.Revision, held.Place.Revision)
		at = c.Place
		at.Revision, err = s.Commit(b.Context(), "m", c)
		require.NoError(b, err)
	}
	b.ReportMetric(float64(b.N)*100/b.Elapsed().Seconds(), "items/s")
}
