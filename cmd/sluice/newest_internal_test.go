package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/terminal"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// idsOf returns the IDs of the events in JSON.
func idsOf(t *testing.T, text string) string {
	t.Helper()
	var events []eventView
	require.NoError(t, json.Unmarshal([]byte(text), &events))
	ids := make([]string, len(events))
	for i, ev := range events {
		ids[i] = ev.ID
	}
	return strings.Join(ids, " ")
}

// events ls lists the newest events first, of the whole log, a range, or those that match.
func TestEventsLs_ListsNewestFirst(t *testing.T) {
	t.Parallel()
	c := serving(t)
	c.must("ns", "put", "n")
	var lines strings.Builder
	for i := 1; i <= 9; i++ {
		fmt.Fprintf(&lines, `{"id":"e%d","path":"/a/%d","type":"t%d"}`+"\n", i, i, i%3)
	}
	status, _, stderr := c.run(lines.String(), "pub", "--from", "-", "--ns", "n")
	require.Zero(t, status, stderr)
	for args, want := range map[string]string{
		"":                         "e9 e8 e7 e6 e5 e4 e3 e2 e1",
		"--limit 2":                "e9 e8",
		"--last 2":                 "e9 e8",
		"--limit 0 --type t1":      "e7 e4 e1",
		"--pattern /a/3":           "e3",
		"--since 2 --until 5":      "e5 e4 e3",
		"--since 10m --limit 1":    "e9",
		"--since e7":               "e9 e8",
		"--until e2":               "e2 e1",
		"--until 10m":              "",
		"--until now --last 1":     "e9",
		"--until 0":                "",
		"--since 9":                "",
		"--oldest-first --limit 2": "e1 e2",
	} {
		require.Equal(t, want, idsOf(t, c.must(append(strings.Fields("events ls --ns n -o json "+args), "-o", "json")...)), args)
	}
	for _, command := range []string{"events ls", "feed", "deliveries s", "dead ls s", "audit", "listen --forward http://127.0.0.1:1"} {
		status, _, stderr = c.run("", append(strings.Fields(command), "--since=-5")...)
		require.Equal(t, terminal.ExitUsage, status, command)
		require.Contains(t, stderr, "--since -5: for the last 5, use --last 5", command)
	}
	require.Equal(t, 2, strings.Count(c.must("feed", "--ns", "n", "--last", "4", "--limit", "2", "-o", "json"), `"id":"e`))
	require.Contains(t, c.must("feed", "--ns", "n", "--last", "4", "--limit", "1", "-o", "json"), `"id":"e6"`)
	require.Contains(t, c.must("feed", "--ns", "n", "--type", "t1", "--last", "2", "--limit", "1", "-o", "json"), `"id":"e4"`)
}

// The search reads the log in parts, from its end to where it begins.
func TestNewest_SearchesInParts(t *testing.T) {
	t.Parallel()
	c := serving(t)
	c.must("ns", "put", "n", "--max-bytes", "12000")
	var lines strings.Builder
	for i := 1; i <= 60; i++ {
		fmt.Fprintf(&lines, `{"id":"e%d","path":"/a","type":"t%d","data":%q}`+"\n", i, i%20, strings.Repeat("x", 300))
	}
	status, _, stderr := c.run(lines.String(), "pub", "--from", "-", "--ns", "n", "--batch", "1")
	require.Zero(t, status, stderr)
	s := &terminal.Session{Flags: terminal.Flags{Data: c.data}}
	api, err := s.Client()
	require.NoError(t, err)
	for _, types := range [][]string{nil, {"t1"}, {"none"}} {
		kept, err := terminal.Collect(0, func(cursor string, most int) (client.Page[sluice.Event], error) {
			return api.Events(t.Context(), "n", client.EventsQuery{Types: types, Since: "-1", Limit: most, Cursor: cursor})
		})
		require.NoError(t, err)
		require.Less(t, len(kept), 60, "the log dropped its oldest events")
		for _, since := range []string{"", "-1"} {
			w := newest{api: api, ns: "n", query: client.EventsQuery{Types: types, Since: since}, part: 2}
			found, err := w.events(t.Context(), 50)
			require.NoError(t, err)
			require.Len(t, found, len(kept), types)
			for i := range found {
				require.Equal(t, kept[len(kept)-1-i].ID, found[i].ID)
			}
			one, err := w.events(t.Context(), 1) // a part may begin before the log
			require.NoError(t, err)
			require.Len(t, one, min(1, len(kept)), types)
		}
	}
}

// A page without paths of the namespace need not be the last one.
func TestTopics_ReadsOnAfterEmptyPage(t *testing.T) {
	t.Parallel()
	pages := map[string]string{
		"":  `{"topics":[],"next_cursor":"b"}`,
		"b": `{"topics":[{"topic":"/a","latest_sequence":1},{"topic":"/b","latest_sequence":2}],"next_cursor":"c"}`,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, pages[r.URL.Query().Get("cursor")])
	}))
	t.Cleanup(server.Close)
	status, stdout, stderr := runUntil(t.Context(), "", "topics", "--limit", "1", "--server", server.URL)
	require.Zero(t, status, stderr)
	require.Contains(t, stdout, "/a")
	require.NotContains(t, stdout, "/b")
}

// Dead letters can be listed after a sequence, as events are.
func TestDeadLs_SinceTakesSequence(t *testing.T) {
	t.Parallel()
	c := serving(t)
	c.must("sub", "create", "--id", "s", "--pattern", "/**", "--url", "http://127.0.0.1:1/", "--retry", "100ms")
	first := c.must("pub", "/a", "1", "--id", "e1", "-o", "json")
	c.must("pub", "/a", "1", "--id", "e2")
	var stored pubReport
	require.NoError(t, json.Unmarshal([]byte(first), &stored))
	require.Eventually(t, func() bool { return strings.Contains(c.must("dead", "ls", "s"), "e2") }, patience, 50*time.Millisecond)
	listed := c.must("dead", "ls", "s", "--since", strconv.FormatUint(stored.Event.Seq, 10))
	require.Contains(t, listed, "e2")
	require.NotContains(t, listed, "e1")
	require.Contains(t, c.must("dead", "ls", "s", "--since=-1"), "e1")
	require.Contains(t, c.must("dead", "ls", "s", "--since", "10m", "--last", "1"), "e2")
}
