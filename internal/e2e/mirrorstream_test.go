package e2e_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// opens returns the body of a response that is still coming.
func (s *running) opens(t *testing.T, path, token string) io.Reader {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.at.HTTP+path, nil)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := s.api.HTTP.Do(req)
	require.NoError(t, err)
	t.Cleanup(func() { _ = resp.Body.Close() })
	require.Equal(t, http.StatusOK, resp.StatusCode)
	return resp.Body
}

// S3-35, S3-116: a mirror is a Durable Stream that is read only; its messages are the entries as items lists them. Live reads end at
// once with the access of the reader, and an offset with the copy.
func TestMirrorStream_EqualsItems(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	mirrorable(t, s)
	s.publishes(t, "low", "/a/1 one", "/b/2 two")
	s.must(t, http.StatusCreated, "POST /v1/subscriptions", `{"id":"m","mode":"mirror","namespace":"high","source":"low","depth":"full"}`)
	s.syncs(t)
	s.publishes(t, "low", "/a/1 three")
	s.must(t, http.StatusCreated, "POST /v1/namespaces/low/tombstones", `{"path":"/b/2"}`)
	s.syncs(t)
	const at = "/v1/namespaces/high/items/stream?subscription=m"
	var listed struct{ Items []json.RawMessage }
	var messages []json.RawMessage
	require.NoError(t, json.Unmarshal([]byte(s.must(t, http.StatusOK, "GET /v1/namespaces/high/items?subscription=m", "").text), &listed))
	all := s.must(t, http.StatusOK, "GET "+at, "")
	require.NoError(t, json.Unmarshal([]byte(all.text), &messages))
	require.Equal(t, listed.Items, messages)
	require.Len(t, messages, 3)
	require.Contains(t, all.text, `"tombstoned":true`)
	head := s.must(t, http.StatusOK, "HEAD "+at, "")
	end := all.header.Get("Stream-Next-Offset")
	require.Equal(t, end, head.header.Get("Stream-Next-Offset"))
	require.NotEmpty(t, head.header.Get("Sluice-Incarnation"))
	for name, want := range map[string]string{"Content-Type": "application/json", "Cache-Control": "no-store", "Stream-Up-To-Date": "true", "ETag": "", "Stream-Closed": ""} {
		require.Equal(t, want, all.header.Get(name), name)
	}
	page, err := s.api.ReadMirrorStream(t.Context(), "high", "m", client.FromNow)
	require.NoError(t, err)
	require.Equal(t, []any{end, "[]", true}, []any{page.Next, string(page.Data), page.UpToDate})
	for _, method := range []string{"POST ", "PUT ", "DELETE "} {
		refused := s.must(t, http.StatusMethodNotAllowed, method+at, "")
		require.Contains(t, refused.header.Get("Allow"), "GET")
		require.NotContains(t, refused.header.Get("Allow"), strings.TrimSpace(method))
	}
	s.must(t, http.StatusBadRequest, "GET /v1/namespaces/high/items/stream", "")
	s.must(t, http.StatusNotFound, "GET /v1/namespaces/low/items/stream?subscription=m", "")

	s.must(t, http.StatusOK, "PUT /v1/principals/user:ann", `{"clearance":{"level":"SECRET","compartments":["a","b"]}}`)
	part := s.grant(t, "user:ann", "path:high/a/**", "read")
	require.Contains(t, []int{http.StatusForbidden, http.StatusNotFound}, s.call(t, "GET "+at, "", as(part.token)...).status)
	reader := s.grant(t, "user:ann", "scope:high", "read")
	events := bufio.NewReader(s.opens(t, at+"&offset=now&live=sse", reader.token))
	s.publishes(t, "low", "/c four")
	s.syncs(t)
	for line := ""; !strings.HasPrefix(line, "data:["); {
		line, err = events.ReadString('\n')
		require.NoError(t, err)
		require.True(t, !strings.HasPrefix(line, "data:[") || strings.Contains(line, `"id":"four"`), line)
	}
	s.must(t, http.StatusOK, "POST /v1/grants/"+reader.id+"/revoke", "")
	rest, err := io.ReadAll(events)
	require.NoError(t, err)
	require.NotContains(t, string(rest), "event: data")
	s.must(t, http.StatusUnauthorized, "GET "+at, "", as(reader.token)...)

	s.must(t, http.StatusNoContent, "DELETE /v1/namespaces/low", "")
	s.must(t, http.StatusCreated, "PUT /v1/namespaces/low", `{}`)
	s.call(t, "POST /v1/subscriptions/m/sync?wait=30s", "") // unless it has found out by itself
	s.must(t, http.StatusOK, "POST /v1/subscriptions/m/resume", `{"accept_origin":true}`)
	s.syncs(t)
	_, err = s.api.ReadMirrorStream(t.Context(), "high", "m", end)
	require.Equal(t, sluice.WindowExceeded, sluice.CodeOf(err), err)
	s.must(t, http.StatusOK, "GET "+at, "")
}

// Cursors that a mirror assigned after a backup are assigned again to other changes once it was restored: readers that have such a
// cursor are told to begin anew, though neither the source nor its log is another one.
func TestMirror_RestorationEndsCursors(t *testing.T) {
	t.Parallel()
	low := start(t, t.TempDir(), nil)
	low.must(t, http.StatusCreated, "PUT /v1/namespaces/low", `{}`)
	reads := low.grant(t, "service:mirror", "scope:low", "read").token
	keyed := func(c *config.Config) { c.Secrets.Key = sharedKey }
	first, second := t.TempDir(), t.TempDir()
	s := start(t, first, keyed)
	s.must(t, http.StatusCreated, "PUT /v1/namespaces/high", `{}`)
	s.must(t, http.StatusCreated, "POST /v1/subscriptions", fmt.Sprintf(`{"id":"m","mode":"mirror","namespace":"high","source":"%s/v1/namespaces/low","credential":%q}`, low.at.HTTP, reads))
	low.publishes(t, "low", "/a one")
	s.syncs(t)
	s.stop(t)
	saved := backUp(t, offline(t, first, ""))

	s = start(t, first, keyed)
	low.publishes(t, "low", "/a two")
	s.syncs(t)
	page, err := s.api.ReadMirrorStream(t.Context(), "high", "m", client.FromBeginning)
	require.NoError(t, err)
	begin := func(q client.MirrorFeedQuery) client.FeedItem {
		q.Mirror = "m"
		for item, err := range s.api.MirrorFeed(t.Context(), "high", q) {
			require.NoError(t, err)
			return item
		}
		return client.FeedItem{}
	}
	at := begin(client.MirrorFeedQuery{})
	resumes := client.MirrorFeedQuery{Mirror: "m", After: strconv.FormatUint(*at.Subscribed, 10), Incarnation: at.Incarnation}
	s.stop(t)

	require.NoError(t, restore(t, saved, offline(t, second, "")))
	s = start(t, second, keyed)
	s.syncs(t)
	low.publishes(t, "low", "/a three", "/a four")
	s.syncs(t)
	for _, err := range s.api.MirrorFeed(t.Context(), "high", resumes) {
		require.Equal(t, sluice.WindowExceeded, sluice.CodeOf(err), err)
		break
	}
	_, err = s.api.ReadMirrorStream(t.Context(), "high", "m", page.Next)
	require.Equal(t, sluice.WindowExceeded, sluice.CodeOf(err), err)
	is := begin(client.MirrorFeedQuery{After: "0"})
	require.Equal(t, is.Incarnation, begin(client.MirrorFeedQuery{After: "0", Incarnation: is.Incarnation}).Incarnation)
}
