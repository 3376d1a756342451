package mirrorstore_test

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
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

// The gaps that were accepted with bundles are all known, however many others came later; a status has the last ones.
func TestStore_KnowsEveryAcceptedGap(t *testing.T) {
	t.Parallel()
	s := open(t)
	gaps := []sluice.MirrorGap{{From: 1, To: 50, Cause: sluice.GapBundle, At: noon}, {From: 51, To: 51, Cause: sluice.GapLabel, At: noon}}
	gaps = append(gaps, sluice.MirrorGap{From: 53, To: 60, Cause: sluice.GapBundle, At: noon})
	for i := range uint64(200) {
		gaps = append(gaps, sluice.MirrorGap{From: 61 + i, To: 61 + i, Cause: sluice.GapLabel, At: noon})
	}
	_, err := s.Commit(t.Context(), "m", mirror.Commit{Gaps: gaps})
	require.NoError(t, err)
	skipped, err := s.Skipped(t.Context(), "m")
	require.NoError(t, err)
	require.Equal(t, []sluice.MirrorGap{gaps[0], gaps[2]}, skipped)
	last, err := s.Gaps(t.Context(), "m")
	require.NoError(t, err)
	require.Equal(t, gaps[len(gaps)-100:], last)
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

	keys := []string{"x", "a b.c/*", "unknown"}
	held, err := s.Hold(t.Context(), "m", keys)
	require.NoError(t, err)
	require.Equal(t, revision, held.Place.Revision)
	require.EqualValues(t, 5, held.Place.Watermark)
	require.Len(t, held.Entries, 2)
	entries, err := s.Entries(t.Context(), "m", keys)
	require.NoError(t, err)
	require.Len(t, entries, 2)
	require.Equal(t, entry(3, "x", `{ "a": "<1>" }`).Change, entries["x"].Change, "byte for byte")
	require.Equal(t, entry(4, "a b.c/*", `1`).Change, entries["a b.c/*"].Change)

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

// Data that JSON would make larger than a message of NATS is stored as it is.
func TestStore_KeepsLargeData(t *testing.T) {
	t.Parallel()
	s := open(t)
	c := mirror.Commit{Place: mirror.Place{Incarnation: "i", Watermark: 5, Live: 2}}
	for i, kind := range []string{"application/octet-stream", "text/plain", "application/json"} {
		e := entry(uint64(i+1), kind, "")
		e.Change.Event.ContentType, e.Change.Event.Data = kind, bytes.Repeat([]byte{0}, s.MaxEntry()-2<<10-len(kind)-1000)
		c.Entries = append(c.Entries, e)
	}
	for i, size := range []int{1 << 10, 1<<10 + 1} { // in the JSON, and behind it
		e := entry(uint64(i+4), fmt.Sprint("of ", size), "")
		e.Change.Event.ContentType, e.Change.Event.Data = "application/json", bytes.Repeat([]byte{'1'}, size)
		c.Entries = append(c.Entries, e)
	}
	_, err := s.Commit(t.Context(), "m", c)
	require.NoError(t, err)
	entries, err := s.Entries(t.Context(), "m", []string{"text/plain"})
	require.NoError(t, err)
	require.Equal(t, c.Entries[1].Change, entries["text/plain"].Change)
	page, err := s.Page(t.Context(), "m", 0, 10)
	require.NoError(t, err)
	for i := range c.Entries {
		page.Entries[i].Cursor = 0
	}
	topics, err := s.Topics(t.Context(), "m", "/", 10)
	require.NoError(t, err)
	require.Equal(t, 5, topics[0].EntryCount)
	require.Equal(t, c.Entries, page.Entries)
}

// S3-46: data of any size is kept byte for byte, and JSON without a content type has that of JSON.
func TestStore_KeepsDataByteForByte(t *testing.T) {
	t.Parallel()
	s := open(t)
	c := mirror.Commit{Place: mirror.Place{Incarnation: "i", Watermark: 9}}
	for i, size := range []int{1, 2000} { // in the JSON of the entry, and behind it
		for j, data := range []string{" {\"t\": \"%s\"}\n\n", "\t\"\xff%s\"", "%s", "{%s"} {
			e := entry(uint64(10*i+j+1), fmt.Sprint(size, j), fmt.Sprintf(data, strings.Repeat("x", size)))
			e.Change.Event.ContentType = ""
			c.Entries = append(c.Entries, e)
		}
	}
	_, err := s.Commit(t.Context(), "m", c)
	require.NoError(t, err)
	page, err := s.Page(t.Context(), "m", 0, 10)
	require.NoError(t, err)
	for i, e := range page.Entries {
		require.Equal(t, string(c.Entries[i].Change.Event.Data), string(e.Change.Event.Data))
		require.Equal(t, "application/json", e.Change.Event.ContentType)
	}
}

// What a mirror has stored behind a place stays when that place is removed.
func TestPurge_KeepsLaterSteps(t *testing.T) {
	t.Parallel()
	s := open(t)
	first, err := s.Commit(t.Context(), "m", mirror.Commit{Place: mirror.Place{Watermark: 2}, Entries: []mirror.Entry{entry(1, "x", `1`), entry(2, "y", `2`)}})
	require.NoError(t, err)
	_, err = s.Commit(t.Context(), "m", mirror.Commit{Place: mirror.Place{Watermark: 3, Revision: first}, Entries: []mirror.Entry{entry(3, "y", `3`)}})
	require.NoError(t, err)
	require.NoError(t, s.Purge(t.Context(), "m", first))
	held, err := s.Hold(t.Context(), "m", []string{"x", "y"})
	require.NoError(t, err)
	require.EqualValues(t, 3, held.Place.Watermark)
	require.Len(t, held.Entries, 1)
	require.EqualValues(t, 3, held.Entries["y"].Change.Event.Seq)
}

// S3-98, S3-110: what a mirror has goes with it, and nothing of another one.
func TestPurge_RemovesOneMirror(t *testing.T) {
	t.Parallel()
	s := open(t)
	places := map[string]uint64{}
	for _, id := range []string{"mm", "m"} {
		var err error
		places[id], err = s.Commit(t.Context(), id, mirror.Commit{Place: mirror.Place{Watermark: 1}, Entries: []mirror.Entry{entry(1, "x", `1`)}})
		require.NoError(t, err)
	}
	require.NoError(t, s.Purge(t.Context(), "m", places["m"]))
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
	}, time.Minute, 20*time.Millisecond)
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

// S3-114: the topics of a mirror are the paths of its entries that begin so, without tombstones, as far as there are not
// too many.
func TestTopics_CountEntriesByPath(t *testing.T) {
	t.Parallel()
	s := open(t)
	on := func(seq uint64, id string, path sluice.Path) mirror.Entry {
		e := entry(seq, id, "1")
		e.Change.Event.Path = path
		return e
	}
	gone := on(9, "gone", "/a/1")
	gone.TombstonedAt = noon
	_, err := s.Commit(t.Context(), "m", mirror.Commit{Entries: []mirror.Entry{on(3, "x", "/a/1"), on(2, "y", "/a/1"), gone, on(4, "z", "/a/2"), on(5, "w", "/b")}})
	require.NoError(t, err)
	_, err = s.Commit(t.Context(), "other", mirror.Commit{Entries: []mirror.Entry{on(3, "x", "/a/1")}})
	require.NoError(t, err)
	topics, err := s.Topics(t.Context(), "m", "/a", 2)
	require.NoError(t, err)
	require.ElementsMatch(t, []sluice.MirroredTopic{{Topic: "/a/1", EntryCount: 2, LatestSequence: 3}, {Topic: "/a/2", EntryCount: 1, LatestSequence: 4}}, topics)
	_, err = s.Topics(t.Context(), "m", "", 2)
	require.Equal(t, sluice.Unprocessable, sluice.CodeOf(err))
	topics, err = s.Topics(t.Context(), "none", "", 2)
	require.NoError(t, err)
	require.Empty(t, topics)
}

// BenchmarkTopics prints how long a list of topics takes, of 100,000 entries of 1 KiB on 10,000 paths.
func BenchmarkTopics(b *testing.B) {
	s := open(b)
	place, data := mirror.Place{}, `"`+strings.Repeat("x", 1<<10)+`"`
	for seq := uint64(1); seq <= 100_000; {
		commit := mirror.Commit{Place: place}
		for range 500 {
			e := entry(seq, strconv.FormatUint(seq, 10), data)
			e.Change.Event.Path = sluice.Path(fmt.Sprint("/a/", seq%10_000))
			commit.Entries, seq = append(commit.Entries, e), seq+1
		}
		var err error
		place.Revision, err = s.Commit(b.Context(), "m", commit)
		require.NoError(b, err)
	}
	for b.Loop() {
		topics, err := s.Topics(b.Context(), "m", "", 1<<20)
		require.NoError(b, err)
		require.Len(b, topics, 10_000)
	}
}
