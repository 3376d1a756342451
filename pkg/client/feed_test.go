package client_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// scripted is a server whose nth connection to a feed says the nth text.
func scripted(t *testing.T, texts ...string) (c *client.Client, asked func(n int) *http.Request) {
	t.Helper()
	requests := make([]*http.Request, len(texts))
	var n atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i := int(n.Add(1)) - 1
		requests[i] = r
		if texts[i] == "" {
			w.WriteHeader(http.StatusGone)
			_, _ = fmt.Fprint(w, `{"error":{"code":"replay_window_exceeded","message":"gone","details":{"oldest_available_seq":99}}}`)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = fmt.Fprint(w, texts[i])
	}))
	t.Cleanup(server.Close)
	c = client.New(server.URL, "token")
	t.Cleanup(c.HTTP.CloseIdleConnections)
	return c, func(n int) *http.Request { return requests[n] }
}

// S2-10, S2-90, S2-137: a reader comes back behind the last place that it was told, and takes what it does not know for nothing.
func TestFeed_ResumesBehindTheLastPlaceTold(t *testing.T) {
	t.Parallel()
	c, asked := scripted(
		t,
		"id: 5\ndata: {\"subscribed\":true,\"current_seq\":5}\n\nid: 6\ndata: {\"seq\":6,\"event\":{\"specversion\":\"1.0\",\"id\":\"a\",\"source\":\"/s\",\"type\":\"t\",\"path\":\"/p\"},\"new\":1}\n\n: hello\n\nid: 9\n: heartbeat\n\n",
		"id: 9\ndata: {\"subscribed\":true,\"current_seq\":30}\n\ndata: {\"lagged\":{\"missed_count\":3,\"oldest_available_seq\":20,\"current_seq\":31}}\n\nid: 8\ndata: {\"seq\":20,\"event\":{\"specversion\":\"1.0\",\"id\":\"b\",\"source\":\"/s\",\"type\":\"t\",\"path\":\"/p\"},\"coalesced\":4,\"resume\":8}\n\n"+
			"id: 12\ndata: {\"newer\":{}}\n\ndata: {\"error\":{\"code\":\"unavailable\",\"message\":\"bye\",\"details\":{}}}\n\n",
		"",
	)
	var got []client.FeedItem
	var ended error
	for item, err := range c.Feed(t.Context(), "ns", client.FeedQuery{
		Pattern: "/p/**", Types: []string{"a", "b.*"}, Sources: []string{"/s,1", "/s2"}, Subjects: []string{"urn:a,1", "urn:b"}, Labels: map[string][]string{"k": {"v", "w"}},
		CEL: "true", Projection: sluice.ProjectionNone, Buffer: 7, CoalesceLabels: []string{"type", "k"}, CoalesceWindow: time.Second, CoalesceFirst: true,
	}) {
		if ended = err; err == nil {
			got = append(got, item)
		}
	}
	require.Equal(t, sluice.WindowExceeded, sluice.CodeOf(ended))
	require.Len(t, got, 7)
	require.Equal(t, uint64(5), *got[0].Subscribed)
	require.Equal(t, []any{uint64(6), "a", 1, "6"}, []any{got[1].Seq, got[1].Event.ID, got[1].Coalesced, got[1].Resume})
	require.Equal(t, sluice.Unavailable, sluice.CodeOf(got[2].Away))
	require.Equal(t, "9", got[2].Resume, "heartbeats say where to go on")
	require.Equal(t, uint64(30), *got[3].Subscribed)
	require.Equal(t, &client.FeedLag{Missed: 3, Oldest: 20, Current: 31}, got[4].Lagged)
	require.Equal(t, "9", got[4].Resume, "a reader that comes back reads what it missed")
	require.Equal(t, []any{uint64(20), 4, "8"}, []any{got[5].Seq, got[5].Coalesced, got[5].Resume})
	require.ErrorContains(t, got[6].Away, "bye")

	first := asked(0)
	require.Equal(t, "/v1/namespaces/ns/feed", first.URL.Path)
	require.Equal(t, "Bearer token", first.Header.Get("Authorization"))
	require.Empty(t, first.Header.Get("Last-Event-ID"))
	query := first.URL.Query()
	require.ElementsMatch(t, []string{"k=v", "k=w"}, query["labels"])
	require.Equal(t, []string{"/s,1", "/s2"}, query["sources"])
	require.Equal(t, []string{"urn:a,1", "urn:b"}, query["subjects"])
	for name, want := range map[string]string{
		"pattern": "/p/**", "types": "a,b.*", "cel": "true", "projection": "none", "buffer": "7",
		"coalesce_labels": "type,k", "coalesce_window_ms": "1000", "coalesce_keep": "first",
	} {
		require.Equal(t, want, query.Get(name), name)
	}
	require.Equal(t, "9", asked(1).Header.Get("Last-Event-ID"))
	require.Equal(t, "12", asked(2).Header.Get("Last-Event-ID"))
}

// A reader that has seen enough ends the feed.
func TestFeed_EndsWithItsReader(t *testing.T) {
	t.Parallel()
	c, _ := scripted(t, "id: 5\ndata: {\"subscribed\":true,\"current_seq\":5}\n\n")
	count := 0
	for item, err := range c.Feed(t.Context(), "ns", client.FeedQuery{}) {
		require.NoError(t, err)
		require.NotNil(t, item.Subscribed)
		count++
		break
	}
	require.Equal(t, 1, count)
}

// S2-137: a connection that breaks in the middle of a frame is one that broke; the frame comes with the next.
func TestFeed_ResumesAfterABrokenFrame(t *testing.T) {
	t.Parallel()
	const begun = "id: 5\ndata: {\"subscribed\":true,\"current_seq\":5}\n\n"
	const frame = "id: 6\ndata: {\"seq\":6,\"event\":{\"specversion\":\"1.0\",\"id\":\"a\",\"source\":\"/s\",\"type\":\"t\",\"path\":\"/p\"}}\n\n"
	for _, cut := range []int{2, 6, 20, len(frame) - 3} {
		c, asked := scripted(t, begun+frame[:cut], begun+frame, "")
		var seqs []uint64
		var ended error
		for item, err := range c.Feed(t.Context(), "ns", client.FeedQuery{}) {
			if ended = err; err == nil && item.Event != nil {
				seqs = append(seqs, item.Seq)
			}
		}
		require.Equal(t, sluice.WindowExceeded, sluice.CodeOf(ended), "%d", cut)
		require.Equal(t, []uint64{6}, seqs)
		require.Equal(t, "5", asked(1).Header.Get("Last-Event-ID"))
		require.Equal(t, "6", asked(2).Header.Get("Last-Event-ID"))
	}
}

// A server with as many feeds as it may have counts one that was lost for a while: who had it waits. Who has none yet is told.
func TestFeed_LostOneWaitsForRoom(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := asked.Add(1)
		switch {
		case r.URL.Path == "/v1/namespaces/full/feed" || n == 2:
			w.WriteHeader(http.StatusTooManyRequests)
		case n == 3:
			w.WriteHeader(http.StatusGone)
		default:
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = fmt.Fprint(w, "id: 3\ndata: {\"subscribed\":true,\"current_seq\":3}\n\n")
		}
	}))
	t.Cleanup(server.Close)
	c := client.New(server.URL, "token")
	t.Cleanup(c.HTTP.CloseIdleConnections)
	last := func(namespace string) (err error) {
		for _, err = range c.Feed(t.Context(), namespace, client.FeedQuery{}) {
		}
		return err
	}
	require.Error(t, last("ns"))
	require.Equal(t, int32(3), asked.Load())
	require.Equal(t, sluice.QuotaExceeded, sluice.CodeOf(last("full")))
	require.Equal(t, int32(4), asked.Load())
}

// S3-40: a reader that comes back names the log that its place is of, and learns that it is another one by now.
func TestFeed_ResumesInTheSameLogOnly(t *testing.T) {
	t.Parallel()
	const begun = "id: 5\ndata: {\"subscribed\":true,\"current_seq\":5,\"incarnation\":\"LOG\"}\n\n"
	c, asked := scripted(t, begun, begun, "")
	var named []string
	var ended error
	for item, err := range c.Feed(t.Context(), "ns", client.FeedQuery{Since: "1", Incarnation: "BEFORE"}) {
		if ended = err; err == nil && item.Subscribed != nil {
			named = append(named, item.Incarnation)
		}
	}
	require.Equal(t, sluice.WindowExceeded, sluice.CodeOf(ended))
	require.Equal(t, []string{"LOG", "LOG"}, named)
	for n, want := range []string{"BEFORE", "LOG", "LOG"} {
		require.Equal(t, want, asked(n).URL.Query().Get("incarnation"))
	}
}
