package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/testkit/sockettest"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// acts returns the actions on a resource in the ledger, oldest first.
func (s *running) acts(t *testing.T, resource string) (acts []string) {
	t.Helper()
	var page struct {
		Entries []struct{ Action, Outcome, Actor string }
	}
	require.NoError(t, json.Unmarshal([]byte(s.must(t, http.StatusOK, "GET /v1/audit?resource="+resource, "").text), &page))
	for _, e := range page.Entries {
		require.Contains(t, []string{"root", "system"}, e.Actor)
		acts = append(acts, e.Action)
	}
	slices.Reverse(acts)
	return acts
}

// S3-50, S3-101, S3-127: each act on a mirror is in the ledger, and each of its turns is a system event. The status and the
// metrics have how far the mirror is, and what it lacks.
func TestMirror_ActsAndTurnsAreSeen(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	mirrorable(t, s)
	s.publishes(t, "low", "/a one", "/b two")
	s.must(t, http.StatusCreated, "POST /v1/namespaces/low/events", `{"specversion":"1.0","type":"t","source":"/s","id":"three","path":"/c","dataclassification":"TOP_SECRET","data":1}`)
	s.must(t, http.StatusCreated, "POST /v1/subscriptions", `{"id":"m","mode":"mirror","namespace":"high","source":"low","depth":"full"}`)
	s.syncs(t)
	s.must(t, http.StatusCreated, "POST /v1/namespaces/low/tombstones", `{"path":"/a"}`)
	st := s.syncs(t)
	require.Equal(t, []any{1.0, 1.0, 1.0, 0.0}, []any{st.field(t, "mirrored_count"), st.field(t, "deleted_count"), st.field(t, "gap_count"), st.field(t, "lag_items")})
	require.Less(t, st.field(t, "lag_seconds"), 60.0)
	require.Contains(t, st.text, `"cause":"label"`)
	metrics := s.must(t, http.StatusOK, "GET /metrics", "").text
	for _, line := range []string{"sluice_mirror_state%s 0", "sluice_mirror_lag_items%s 0", "sluice_mirror_gaps_total%s 1", "sluice_mirror_entries_total%s 3"} {
		require.Contains(t, metrics, fmt.Sprintf(line, `{namespace="high",subscription="m"}`))
	}

	s.must(t, http.StatusOK, "PATCH /v1/subscriptions/m", `{"weight":1}`)
	s.must(t, http.StatusOK, "POST /v1/subscriptions/m/suspend", "")
	s.must(t, http.StatusOK, "POST /v1/subscriptions/m/resume", "")
	s.must(t, http.StatusNoContent, "DELETE /v1/subscriptions/m", "")
	require.Equal(t, []string{"mirror.create", "mirror.update", "mirror.suspend", "mirror.resume", "mirror.delete"}, s.acts(t, "m"))
	eventually(t, func() bool {
		kinds := s.typesOn(t, "high", "/_sys/subscriptions/m")
		slices.Sort(kinds)
		return slices.Equal(kinds, []string{"mirror.created", "mirror.deleted", "mirror.gap", "mirror.resumed", "mirror.suspended", "mirror.updated"})
	}, "the system events")
	require.NotContains(t, s.must(t, http.StatusOK, "GET /metrics", "").text, `subscription="m"`)
}

// topicsOf returns all pages of the topics of a namespace: "path seq" of its own, "path seq count mirror source" of mirrors.
func (s *running) topicsOf(t *testing.T, query string, headers ...string) (own, mirrored []string) {
	t.Helper()
	for cursor := ""; ; {
		r := s.must(t, http.StatusOK, "GET /v1/namespaces/high/topics?"+query+"&cursor="+cursor, "", headers...)
		var page struct {
			Topics []struct {
				Topic string
				Seq   uint64 `json:"latest_sequence"`
			}
			Mirrored []struct {
				Topic  string
				Source string `json:"source_notebook_id"`
				Mirror string `json:"subscription_id"`
				Count  int    `json:"entry_count"`
				Seq    uint64 `json:"latest_sequence"`
			} `json:"mirrored_topics"`
			NextCursor string `json:"next_cursor"`
		}
		require.NoError(t, json.Unmarshal([]byte(r.text), &page))
		for _, is := range page.Topics {
			own = append(own, fmt.Sprint(is.Topic, " ", is.Seq))
		}
		for _, is := range page.Mirrored {
			mirrored = append(mirrored, fmt.Sprint(is.Topic, " ", is.Seq, " ", is.Count, " ", is.Mirror, " ", is.Source))
		}
		if cursor = page.NextCursor; cursor == "" {
			return own, mirrored
		}
	}
}

// S3-113, S3-114: topics are the namespace's own unless those of its mirrors are asked for, too; page by page none is missing
// and none there twice.
func TestTopics_ListMirroredOnesOnRequest(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	mirrorable(t, s)
	s.must(t, http.StatusCreated, "PUT /v1/namespaces/other", `{}`)
	s.publishes(t, "low", "/a/1 one", "/a/2 two", "/a/1 three", "/b four", "/c five")
	s.publishes(t, "other", "/a/9 six")
	s.must(t, http.StatusCreated, "POST /v1/subscriptions", `{"id":"m","mode":"mirror","namespace":"high","source":"low"}`)
	s.must(t, http.StatusCreated, "POST /v1/subscriptions", `{"id":"n","mode":"mirror","namespace":"high","source":"other"}`)
	s.syncs(t)
	s.must(t, http.StatusOK, "POST /v1/subscriptions/n/sync?wait=30s", "")
	s.publishes(t, "high", "/x own", "/a/3 mine", "/x again")
	s.must(t, http.StatusCreated, "POST /v1/namespaces/low/tombstones", `{"path":"/c"}`)
	s.syncs(t)
	seqs, _ := s.topicsOf(t, "")
	require.Len(t, seqs, 2)
	plain := s.must(t, http.StatusOK, "GET /v1/namespaces/high/topics?include_mirrored=false", "").text
	require.NotContains(t, plain, "mirrored_topics")
	require.Equal(t, plain, s.must(t, http.StatusOK, "GET /v1/namespaces/high/topics", "").text)
	all := []string{"/a/1 3 2 m low", "/a/2 2 1 m low", "/b 4 1 m low", "/a/9 1 1 n other"}
	for _, limit := range []string{"1", "2", "3", "1000"} {
		var own, mirrored []string
		eventually(t, func() bool { // a list may be of a moment before the last sync
			own, mirrored = s.topicsOf(t, "include_mirrored=true&limit="+limit)
			return slices.Equal(mirrored, all)
		}, "limit "+limit)
		require.Equal(t, seqs, own)
	}
	own, mirrored := s.topicsOf(t, "include_mirrored=true&path_prefix=/a/")
	require.Len(t, own, 1)
	require.Contains(t, own[0], "/a/3 ")
	require.Equal(t, []string{all[0], all[1], all[3]}, mirrored)
	s.must(t, http.StatusBadRequest, "GET /v1/namespaces/high/topics?include_mirrored=yes", "")
	s.must(t, http.StatusBadRequest, "GET /v1/namespaces/high/topics?cursor=x", "")

	// A caller that may read a part sees that, and nothing mirrored.
	s.must(t, http.StatusOK, "PUT /v1/principals/user:ann", `{"clearance":{"level":"SECRET","compartments":["a","b"]}}`)
	part := s.grant(t, "user:ann", "path:high/a/**", "read")
	own, _ = s.topicsOf(t, "", as(part.token)...)
	require.Len(t, own, 1)
	require.Contains(t, own[0], "/a/3 ")
	s.must(t, http.StatusForbidden, "GET /v1/namespaces/high/topics?include_mirrored=true", "", as(part.token)...)
}

// S3-21, S3-45: a mirror of claims has the summary fields of an entry, and not the rest of its data. S3-17: it is found by its
// source and by its subscriber. S3-96: who reads it is cleared for the level of the subscriber.
func TestMirror_OfClaimsHasTheSummary(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	mirrorable(t, s)
	s.must(t, http.StatusCreated, "PUT /v1/namespaces/low/event-types/claim", `{"summary_fields":["claims"]}`)
	s.must(t, http.StatusCreated, "POST /v1/namespaces/low/events", `{"path":"/a","id":"one","type":"claim","data":{"claims":["the sky is blue"],"content":"long"}}`)
	s.must(t, http.StatusCreated, "POST /v1/subscriptions", `{"id":"m","mode":"mirror","namespace":"high","source":"low","depth":"claims"}`)
	s.syncs(t)
	items := s.must(t, http.StatusOK, "GET /v1/namespaces/high/items?subscription=m", "").text
	require.Contains(t, items, `"data":{"claims":["the sky is blue"]}`)
	require.NotContains(t, items, "long")

	for query, want := range map[string]int{"source=low": 1, "source=other": 0, "namespace=high": 1, "namespace=low": 0, "namespace=high&source=low": 1} {
		require.Len(t, s.must(t, http.StatusOK, "GET /v1/subscriptions?mode=mirror&"+query, "").field(t, "subscriptions"), want, query)
	}
	require.Equal(t, "invalid_request", s.must(t, http.StatusBadRequest, "GET /v1/subscriptions?source=low", "").field(t, "error.code"))

	for who, clearance := range map[string]string{"user:low": `{"level":"INTERNAL","compartments":["a"]}`, "user:high": `{"level":"SECRET","compartments":["a","b"]}`} {
		s.must(t, http.StatusOK, "PUT /v1/principals/"+who, `{"clearance":`+clearance+`}`)
	}
	require.Contains(t, []int{http.StatusForbidden, http.StatusNotFound},
		s.call(t, "GET /v1/namespaces/high/items?source=mirrored", "", as(s.grant(t, "user:low", "scope:high", "read").token)...).status)
	s.must(t, http.StatusOK, "GET /v1/namespaces/high/items?source=mirrored", "", as(s.grant(t, "user:high", "scope:high", "read").token)...)
}

// followed are the items of a mirror's feed, as "id seq" of entries, "gap from to" and "at watermark".
func followed(ctx context.Context, c *client.Client, q client.MirrorFeedQuery) (items <-chan string, ended <-chan error) {
	out, end := make(chan string, 100), make(chan error, 1)
	go func() {
		for item, err := range c.MirrorFeed(ctx, "high", q) {
			switch {
			case err != nil:
				end <- err
				return
			case item.Mirrored != nil && item.Mirrored.Tombstoned:
				out <- "gone " + item.Mirrored.Change.Event.ID
			case item.Mirrored != nil:
				out <- fmt.Sprint(item.Mirrored.Change.Event.ID, " ", item.Mirrored.Change.Event.Seq, " ", item.Mirrored.Source, " ", item.Mirrored.Origin, " ", item.Mirrored.Weight, " ", item.Mirrored.Label.Level, " ", item.Resume)
			case item.Gap != nil:
				out <- fmt.Sprint("gap ", item.Gap.From, " ", item.Gap.To)
			case item.Synced != nil:
				out <- fmt.Sprint("at ", item.Synced.Watermark)
			case item.Subscribed != nil:
				out <- "subscribed"
			}
		}
	}()
	return out, end
}

// S3-35, S3-116: a mirror is followed live, apart from the events of its namespace: entries with their provenance, weight and the
// subscriber's label, deletions and gaps. A reader resumes behind a cursor. The feed ends at once with the access of its reader, and
// with the copy.
func TestMirrorFeed_GoesOnLiveAndResumes(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	mirrorable(t, s)
	s.publishes(t, "low", "/a/1 one", "/b/2 two")
	s.must(t, http.StatusCreated, "POST /v1/subscriptions", `{"id":"m","mode":"mirror","namespace":"high","source":"low","depth":"full"}`)
	s.syncs(t)
	s.must(t, http.StatusOK, "PUT /v1/principals/user:ann", `{"clearance":{"level":"SECRET","compartments":["a","b"]}}`)
	reader := s.grant(t, "user:ann", "scope:high", "read")
	ann := client.New(s.at.HTTP, reader.token)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	items, ended := followed(ctx, ann, client.MirrorFeedQuery{Mirror: "m", After: "0"})
	next := func() string {
		select {
		case item := <-items:
			return item
		case err := <-ended:
			return err.Error()
		case <-time.After(time.Minute):
			return "nothing"
		}
	}
	require.Equal(t, "subscribed", next())
	one, two := next(), next()
	require.Regexp(t, `^one 1 mirrored low 0.3 SECRET \d+$`, one)
	require.Contains(t, two, "two 2 mirrored")
	require.Equal(t, "at 2", next())
	s.publishes(t, "low", "/a/1 three")
	s.must(t, http.StatusCreated, "POST /v1/namespaces/low/events", `{"specversion":"1.0","type":"t","source":"/s","id":"four","path":"/c","dataclassification":"TOP_SECRET","data":1}`)
	s.must(t, http.StatusCreated, "POST /v1/namespaces/low/tombstones", `{"path":"/b/2"}`)
	s.syncs(t)
	live := []string{next(), next(), next(), next()}
	require.Contains(t, live[0], "three 3 mirrored")
	require.ElementsMatch(t, []string{"gone two", "gap 4 4", live[0], "at 5"}, live)

	later, _ := followed(ctx, ann, client.MirrorFeedQuery{Mirror: "m", PathPrefix: "/a", After: one[strings.LastIndexByte(one, ' ')+1:]})
	require.Equal(t, "subscribed", <-later)
	require.Contains(t, <-later, "three 3", "what has changed since")
	require.Equal(t, "gap 4 4", <-later)
	require.Equal(t, "at 5", <-later)
	for _, line := range []string{"POST /v1/namespaces/high/items/feed?subscription=m", "DELETE /v1/namespaces/high/items/feed?subscription=m", "PUT /v1/namespaces/high/items/feed"} {
		require.Equal(t, http.StatusMethodNotAllowed, s.call(t, line, "").status, "it is read only")
	}
	require.Empty(t, s.must(t, http.StatusOK, "GET /v1/namespaces/high/events?pattern=/**", "").field(t, "events"))
	s.must(t, http.StatusBadRequest, "GET /v1/namespaces/high/items/feed", "")
	s.must(t, http.StatusNotFound, "GET /v1/namespaces/low/items/feed?subscription=m", "")
	gone := s.must(t, http.StatusGone, "GET /v1/namespaces/high/items/feed?subscription=m&incarnation=other", "")
	require.NotEmpty(t, gone.field(t, "error.details.incarnation"))

	s.must(t, http.StatusOK, "POST /v1/grants/"+reader.id+"/revoke", "")
	select {
	case err := <-ended:
		require.Contains(t, []sluice.Code{sluice.NotFound, sluice.CapabilityRequired, sluice.Unauthenticated}, sluice.CodeOf(err), err)
	case <-time.After(time.Minute):
		require.Fail(t, "the feed goes on")
	}
}

// The feed of a mirror ends when the mirror is begun anew with another log, and a reader that resumes is told. It ends with the mirror.
func TestMirrorFeed_EndsWithTheCopy(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	mirrorable(t, s)
	s.publishes(t, "low", "/a/1 one", "/a/2 two")
	s.must(t, http.StatusCreated, "POST /v1/subscriptions", `{"id":"m","mode":"mirror","namespace":"high","source":"low"}`)
	s.syncs(t)
	items, ended := followed(t.Context(), s.api, client.MirrorFeedQuery{Mirror: "m"})
	require.Equal(t, "subscribed", <-items)
	s.must(t, http.StatusNoContent, "DELETE /v1/namespaces/low", "")
	s.must(t, http.StatusCreated, "PUT /v1/namespaces/low", `{}`)
	s.publishes(t, "low", "/a/1 other")
	s.call(t, "POST /v1/subscriptions/m/sync?wait=30s", "") // unless it has found out by itself
	require.Equal(t, "origin_replaced", s.must(t, http.StatusOK, "GET /v1/subscriptions/m/status", "").field(t, "reason"))
	s.must(t, http.StatusOK, "POST /v1/subscriptions/m/resume", `{"accept_origin":true}`)
	s.syncs(t)
	select {
	case err := <-ended:
		require.Equal(t, sluice.WindowExceeded, sluice.CodeOf(err), err)
	case <-time.After(time.Minute):
		require.Fail(t, "the feed goes on")
	}
	items, ended = followed(t.Context(), s.api, client.MirrorFeedQuery{Mirror: "m", After: "0"})
	require.Equal(t, "subscribed", <-items)
	require.Contains(t, <-items, "other 1")
	s.must(t, http.StatusNoContent, "DELETE /v1/subscriptions/m", "")
	select {
	case err := <-ended:
		require.Contains(t, []sluice.Code{sluice.NotFound, sluice.SubscriptionMissing}, sluice.CodeOf(err), err)
	case <-time.After(time.Minute):
		require.Fail(t, "the feed goes on")
	}
}

// A mirror is followed over a WebSocket, too.
func TestMirrorFeed_SpeaksWebSocket(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	mirrorable(t, s)
	s.must(t, http.StatusCreated, "POST /v1/namespaces/low/events", `{"path":"/a","id":"one","data":{ "text" :
		"x" }}`)
	s.must(t, http.StatusCreated, "POST /v1/subscriptions", `{"id":"m","mode":"mirror","namespace":"high","source":"low","depth":"full"}`)
	s.syncs(t)
	header := http.Header{"Authorization": {"Bearer " + s.token}}
	conn, _, err := sockettest.Dial(t.Context(), s.api.HTTP, s.at.HTTP+"/v1/namespaces/high/items/feed?subscription=m&after=0", header) //nolint:bodyclose // it is the connection's
	require.NoError(t, err)
	t.Cleanup(conn.CloseNow)
	for _, want := range []string{`^{"subscribed":true,"current_seq":\d+,"incarnation":".+"}$`, `^{"cursor":\d+,"item":{"source":"mirrored",.*"data":{"text":"x"}.*}}$`, `^{"cursor":\d+,"synced":{.*"watermark":1,.*}}$`} {
		text, err := conn.Read(t.Context())
		require.NoError(t, err)
		require.Regexp(t, want, string(text))
	}
}
