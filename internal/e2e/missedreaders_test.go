package e2e_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// flipped stops a server, flips a bit of a text in the log of its namespace, and starts it again once its damage is known.
func (s *running) flipped(t *testing.T, text string) *running {
	t.Helper()
	s.stop(t)
	flipStored(t, s.dir, jsNames(t).EventsStream("default"), text, true)
	again := start(t, s.dir, nil)
	again.damageOf(t, jsNames(t).EventsStream("default"))
	return again
}

// Issue 13, F5: a state names what it may lack; that of one path only what may have come behind its event.
func TestMissed_StateNamesItsGaps(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	for i := range 3 {
		s.tells(t, fmt.Sprintf("marker-%02d", i))
	}
	seq := s.lastSeq(t)
	s.must(t, http.StatusCreated, "POST /v1/namespaces/default/events", `{"path":"/b/1","type":"t"}`)
	before, err := s.api.State(t.Context(), sluice.DefaultNamespace, client.StateQuery{})
	require.NoError(t, err)
	require.Empty(t, before.Unreadable)
	s = s.flipped(t, "marker-02")

	lost := []sluice.Gap{{From: seq, To: seq}}
	state := func(q client.StateQuery) []sluice.Gap {
		page, err := s.api.State(t.Context(), sluice.DefaultNamespace, q)
		require.NoError(t, err)
		return page.Unreadable
	}
	require.Equal(t, lost, state(client.StateQuery{}))
	require.Equal(t, lost, state(client.StateQuery{Pattern: "/a/*"}))
	require.Empty(t, state(client.StateQuery{Pattern: "/b/*"}), "of another path")
	require.Empty(t, state(client.StateQuery{At: seq - 1}), "before the gap")
	for item, err := range s.api.Feed(t.Context(), sluice.DefaultNamespace, client.FeedQuery{Since: client.LastPerPath}) {
		require.NoError(t, err)
		require.NotNil(t, item.Lagged)
		require.Equal(t, &lost[0], item.Lagged.Unreadable)
		require.Equal(t, seq+1, item.Lagged.Oldest)
		break
	}

	header := func(path string) string {
		return s.call(t, "GET /v1/namespaces/default/state"+path, "").header.Get("Stream-Unreadable")
	}
	require.Equal(t, fmt.Sprintf("%d-%d", seq, seq), header("/a/1"))
	require.Empty(t, header("/b/1"))
	s.tells(t, "later")
	require.Empty(t, header("/a/1"), "a later event is the state, even if earlier ones were lost")
	require.Equal(t, lost, state(client.StateQuery{}))
}

// Issue 13, F5: the end of a closed stream says that messages behind the last one may be lost; none comes behind which a reader
// would learn of it.
func TestMissed_ClosedStreamNamesItsLostEnd(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	for _, path := range []string{"/closed", "/open"} {
		s.must(t, http.StatusCreated, "PUT /streams/default"+path, "", text()...)
		for i := range 3 {
			s.must(t, http.StatusNoContent, "POST /streams/default"+path, fmt.Sprintf("%s-marker-%d ", path, i), text()...)
		}
	}
	s.must(t, http.StatusNoContent, "POST /streams/default/closed", "", "Stream-Closed", "true")
	s = s.flipped(t, "/closed-marker-2")

	page, err := s.api.Events(t.Context(), sluice.DefaultNamespace, client.EventsQuery{Since: "-1", Limit: 1000})
	require.NoError(t, err)
	require.Len(t, page.Unreadable, 1)
	gap := fmt.Sprintf("%d-%d", page.Unreadable[0].From, page.Unreadable[0].To)
	read := func(query string) reply {
		return s.must(t, http.StatusOK, "GET /streams/default"+query, "")
	}
	whole := read("/closed?offset=-1")
	require.Equal(t, "/closed-marker-0 /closed-marker-1 ", whole.text)
	require.Equal(t, "true", whole.header.Get("Stream-Closed"))
	require.Equal(t, gap, whole.header.Get("Stream-Unreadable"))
	require.Equal(t, gap, read("/closed?offset="+whole.header.Get("Stream-Next-Offset")).header.Get("Stream-Unreadable"), "of a reader that has come to the end")
	require.Empty(t, read("/closed?offset=now").header.Get("Stream-Unreadable"))
	require.Contains(t, read("/closed?offset=-1&live=sse").text, `"streamUnreadable":"`+gap+`"`)
	require.Empty(t, read("/open?offset=-1").header.Get("Stream-Unreadable"))
}

// Issue 13, F5: a replay that passes a gap says how many sequences it could not read.
func TestMissed_ReplayCountsItsGap(t *testing.T) {
	t.Parallel()
	s, seq := lossy(t)
	s = s.flipped(t, "marker-07")
	replay := func(from uint64) sluice.Replay {
		rep, err := s.api.Replay(t.Context(), "got", client.ReplayRequest{From: strconv.FormatUint(from, 10)})
		require.NoError(t, err)
		rep = ended(t, s.api, rep)
		require.Equal(t, sluice.ReplayDone, rep.State)
		return rep
	}
	whole := replay(1)
	require.Equal(t, [2]uint64{19, 1}, [2]uint64{whole.Sent, whole.Unreadable})
	require.Zero(t, replay(seq+1).Unreadable)
}

// Issue 13, F5: a watch on trial counts the readings that cannot be read; the engine's tests show those of a watch.
func TestMissed_TrialOfAWatchCountsItsGap(t *testing.T) {
	t.Parallel()
	s, seq := lossy(t)
	s = s.flipped(t, "marker-07")
	try := func(pattern string, since uint64) any {
		return s.must(t, http.StatusOK, "POST /v1/namespaces/default/watches/test", fmt.Sprintf(`{"pattern":%q,"since":%d}`, pattern, since)).field(t, "missed.unreadable")
	}
	require.InDelta(t, 1, try("/a/*", 1), 0)
	require.Nil(t, try("/b/*", 1))
	require.Nil(t, try("/a/*", seq))
}

// Issue 13, F5: the files of an export come with a list of the ranges that they may lack events of.
func TestMissed_ExportListsItsGap(t *testing.T) {
	t.Parallel()
	s, seq := lossy(t)
	s.stop(t)
	flipStored(t, s.dir, jsNames(t).EventsStream("default"), "marker-07", true)
	files := filepath.Join(s.dir, "export")
	start(t, s.dir, func(c *config.Config) { c.Export.Dir = files })
	eventually(t, func() bool {
		text, err := os.ReadFile(filepath.Join(files, "logs", "events", "default.unreadable.jsonl"))
		return err == nil && strings.HasPrefix(string(text), fmt.Sprintf(`{"from":%d,"to":%d,`, seq, seq))
	}, "the range is listed")
}
