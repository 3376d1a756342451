package e2e_test

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// S2-143…146, C31: within a window, events of the same labels are one, the last of them; one without a label passes.
func TestFeed_Coalesces(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	put(t, s.api, "/before", 1, 1)
	forms := []string{
		"coalesce_labels=variant,handle_id&coalesce_window_ms=2000",
		"coalesce=" + url.QueryEscape(`{"labels":["variant","handle_id"],"window_ms":2000}`),
	}
	var readers []*feedReader
	for _, form := range forms {
		r, _ := s.feed(t, form)
		readers = append(readers, r)
	}
	first, _ := s.socket(t, forms[0]+"&coalesce_keep=first")
	var batch []string // one request, so that all are within the window
	for _, data := range []string{`{"handle_id":"h1","v":1}`, `{"handle_id":"h2","v":2}`, `{"handle_id":"h1","v":3}`, `{"other":4}`, `{"handle_id":"h1","v":5}`, `{"handle_id":null,"v":6}`} {
		batch = append(batch, `{"path":"/a","type":"state","data":`+data+`}`)
	}
	s.must(t, http.StatusCreated, "POST /v1/namespaces/default/events", "["+strings.Join(batch, ",")+"]")
	for _, r := range append(readers, first) {
		for _, want := range []shown{{Seq: 5, Resume: 1}, {Seq: 7, Resume: 1}, {Seq: 3, Resume: 1}, {Seq: 6, Coalesced: 3}} {
			f := r.frame()
			require.Equal(t, want.Seq, f.Seq)
			require.Equal(t, want.Resume, f.Resume)
			require.Equal(t, want.Coalesced, f.Coalesced)
			if want.Seq == 6 && r == first {
				require.JSONEq(t, `{"handle_id":"h1","v":1}`, string(f.Event.Data))
			} else {
				require.Equal(t, f.Seq, f.Event.Seq)
			}
		}
	}
	for _, bad := range []string{"coalesce_window_ms=5", "coalesce_labels=a&coalesce_keep=x", "coalesce_labels=a,,b", "coalesce=x"} {
		s.must(t, http.StatusBadRequest, "GET "+feedAt+"?"+bad, "")
	}
}

// C31: what is held back is sent before a feed ends.
func TestFeed_FlushesHeldEventsBeforeTheEnd(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), func(c *config.Config) { c.Feed.Heartbeat = sluice.Duration(time.Second) })
	put(t, s.api, "/b", 1, 1)
	r, _ := s.feed(t, "pattern=/a&coalesce_labels=type&coalesce_window_ms=5000")
	w, _ := s.socket(t, "pattern=/a&coalesce_labels=type&coalesce_window_ms=5000")
	put(t, s.api, "/a", 2, 3)
	for _, r := range []*feedReader{r, w} {
		f := shown{}
		for f.Heartbeat == nil || f.Heartbeat.Seq != 1 { // behind which a reader goes on that has got nothing yet
			var err error
			f, err = r.next()
			require.NoError(t, err)
			require.Nil(t, f.Event, "the window has not ended")
		}
	}
	s.stop(t)
	for _, r := range []*feedReader{r, w} {
		f := r.frame()
		require.Equal(t, 2, f.Coalesced)
		require.Equal(t, uint64(3), f.Seq)
		f = r.frame()
		require.Equal(t, "unavailable", f.Error.Code)
		_, err := r.next()
		require.Error(t, err)
	}
}

// C10, S2-113…116: what the catalogue counts to the summary is shown, or as much as is asked for.
func TestFeed_ShowsTheRequestedProjection(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	s.must(t, http.StatusCreated, "PUT /v1/namespaces/default/event-types/known", `{"summary_fields":["a"]}`)
	s.must(t, http.StatusCreated, "POST /v1/namespaces/default/events", `[{"path":"/a","type":"known","data":{"a":1,"b":2}},{"path":"/a","type":"other","data":{"c":3}}]`)
	for query, want := range map[string][]string{
		"":        {`{"a":1}`, `{"c":3}`},
		"full":    {`{"a":1,"b":2}`, `{"c":3}`},
		"summary": {`{"a":1}`, ``},
		"none":    {``, ``},
	} {
		r, _ := s.feed(t, "since=-1&projection="+query)
		for _, data := range want {
			f := r.frame()
			require.Equal(t, data, string(f.Event.Data), query)
			whole := data == `{"c":3}` || query == "full"
			require.Equal(t, !whole, f.Event.Extensions[sluice.DataRef] != "", query)
			if !whole {
				u, err := url.Parse(f.Event.Extensions[sluice.DataRef])
				require.NoError(t, err)
				s.must(t, http.StatusOK, "GET "+u.Path, "")
			}
		}
	}
	s.must(t, http.StatusBadRequest, "GET "+feedAt+"?projection=half", "")
}

// S2-137: a reader that loses its server goes on where it was when there is one again: nothing is missing, nothing comes twice.
func TestFeed_ReaderResumesAfterAnOutage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, dir, nil)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	items := make(chan client.FeedItem, 100)
	var reading sync.WaitGroup
	defer reading.Wait()
	defer cancel()
	reader := client.New(s.at.HTTP, s.token)
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	reader.HTTP = &http.Client{Transport: transport}
	reading.Go(func() {
		for item, err := range reader.Feed(ctx, "default", client.FeedQuery{Pattern: "/a/**"}) {
			if err != nil {
				return
			}
			items <- item
		}
	})
	next := func() client.FeedItem {
		select {
		case item := <-items:
			return item
		case <-ctx.Done():
			require.FailNow(t, "nothing comes")
			return client.FeedItem{}
		}
	}
	require.Zero(t, *next().Subscribed)
	put(t, s.api, "/a/x", 1, 2)
	require.Equal(t, numbered("/a/x", 1), next().Event.ID)
	require.Equal(t, numbered("/a/x", 2), next().Event.ID)
	address := strings.TrimPrefix(s.at.HTTP, "http://")
	s.stop(t)
	require.Error(t, next().Away)
	s = start(t, dir, func(c *config.Config) { c.HTTP.Listen = address })
	put(t, s.api, "/a/x", 3, 4) // before the reader is back, or after
	for n := 3; n <= 4; {
		item := next()
		if item.Event != nil {
			require.Equal(t, numbered("/a/x", n), item.Event.ID)
			n++
		}
	}
}

// C11: where there was no answer yet, and what a server refuses, is an error at once.
func TestFeed_RefusalEndsWithTheError(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	for _, err := range s.api.Feed(t.Context(), "none", client.FeedQuery{}) {
		require.Equal(t, sluice.NotFound, sluice.CodeOf(err))
	}
	for _, err := range s.api.Feed(t.Context(), "default", client.FeedQuery{CEL: "1+"}) {
		require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(err))
	}
	away := client.New("http://127.0.0.1:1", "x")
	away.Retries = 1
	for _, err := range away.Feed(t.Context(), "default", client.FeedQuery{}) {
		require.Equal(t, sluice.Unavailable, sluice.CodeOf(err))
	}
}

// A feed ends with its namespace.
func TestFeed_EndsWithItsNamespace(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	s.must(t, http.StatusCreated, "PUT /v1/namespaces/short", `{}`)
	var ended error
	for item, err := range s.api.Feed(t.Context(), "short", client.FeedQuery{}) {
		if ended = err; err != nil {
			break
		}
		if item.Subscribed != nil {
			s.must(t, http.StatusNoContent, "DELETE /v1/namespaces/short", "")
		}
	}
	require.Equal(t, sluice.NotFound, sluice.CodeOf(ended))
}
