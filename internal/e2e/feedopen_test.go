package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// S2-01, S2-03, S2-36, S2-86, S2-142: a late reader asks for the state, and is told the changes from there on: nothing in between
// is missing or there twice.
func TestFeed_LateReaderGetsStateThenChanges(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	change := func(class string, on bool) {
		s.must(t, http.StatusCreated, "POST /v1/namespaces/default/events",
			fmt.Sprintf(`{"path":"/connectivity/%s","type":"connectivity.changed","data":{"rack_class":%q,"on":%t}}`, class, class, on))
	}
	change("bluetooth", true)
	change("wifi", false)
	change("bluetooth", false)
	state, err := s.api.State(t.Context(), "default", client.StateQuery{Pattern: "/connectivity/*"})
	require.NoError(t, err)
	is := map[sluice.Path]string{}
	for _, ev := range state.Events {
		is[ev.Path] = string(ev.Data)
	}
	require.Equal(t, map[sluice.Path]string{
		"/connectivity/bluetooth": `{"rack_class":"bluetooth","on":false}`, "/connectivity/wifi": `{"rack_class":"wifi","on":false}`,
	}, is)
	change("modem", true) // before the feed is open
	r, ack := s.feed(t, fmt.Sprintf("pattern=/connectivity/*&since=%d", state.Seq))
	require.Equal(t, state.Seq+1, ack.Current)
	put(t, s.api, "/elsewhere", 1, 1)
	put(t, s.api, "/connectivity/deeper/down", 1, 1)
	change("wifi", true)
	require.Equal(t, []string{`{"rack_class":"modem","on":true}`, `{"rack_class":"wifi","on":true}`}, r.events(2))
}

// S2-02, S2-10, S2-61, S2-62, S2-75, S2-139: types of events are data. A reader that is there sees those of a type that no reader
// knew, and of one that is registered meanwhile.
func TestFeed_NewTypesNeedNoChangeOfTheReader(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	raw, _ := s.feed(t, "")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var kinds []string
	publish := func(kind string) {
		s.must(t, http.StatusCreated, "POST /v1/namespaces/default/events", `{"path":"/a","type":"`+kind+`","data":{"canonical_id":"s-1","more":[1]}}`)
		kinds = append(kinds, kind)
	}
	publish("subject.announced")
	require.JSONEq(t, `{"canonical_id":"s-1","more":[1]}`, raw.events(1)[0])
	known := func() any { return s.must(t, http.StatusOK, "GET /v1/capabilities", "").field(t, "coalesce_labels") }
	require.Empty(t, known())
	s.must(t, http.StatusCreated, "PUT /v1/namespaces/default/event-types/subject.announced",
		`{"schema":{"type":"object","required":["canonical_id"]},"summary_fields":["canonical_id"],"static_labels":{"family":"subject"}}`)
	require.Equal(t, map[string]any{"subject.announced": []any{"family"}}, known())
	publish("subject.announced")
	require.JSONEq(t, `{"canonical_id":"s-1"}`, raw.events(1)[0], "of one that is known, what counts to its summary")
	publish("plugin.admitted")
	require.JSONEq(t, `{"canonical_id":"s-1","more":[1]}`, raw.events(1)[0])

	var seen []string
	for item, err := range s.api.Feed(ctx, "default", client.FeedQuery{Since: "-1"}) {
		require.NoError(t, err)
		if item.Event != nil {
			seen = append(seen, item.Event.Type)
		}
		if len(seen) == len(kinds) {
			break
		}
	}
	require.Equal(t, kinds, seen)
}

// S2-13: every event of a feed says when it was, also where its publisher did not.
func TestFeed_EventsHaveTheirTime(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	r, _ := s.feed(t, "")
	before := time.Now().Add(-time.Second)
	s.must(t, http.StatusCreated, "POST /v1/namespaces/default/events", `{"path":"/a","type":"t"}`)
	require.NoError(t, dial(t, s.at.NATS).Conn().Publish(jsNames(t).EventsPrefix()+"default.b", []byte("plain")))
	for range 2 {
		f := r.frame()
		require.WithinRange(t, f.Event.Time, before, time.Now().Add(time.Second), string(f.Event.Path))
	}
	s.must(t, http.StatusCreated, "POST /v1/namespaces/default/events", `{"path":"/a","type":"t","time":"2001-02-03T04:05:06Z"}`)
	require.Equal(t, 2001, r.frame().Event.Time.Year(), "a publisher's own is kept")
}

// S2-146: how one reader has its events taken together is nothing to the others.
func TestFeed_CoalescingIsPerReader(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	every, _ := s.feed(t, "")
	byType, _ := s.feed(t, "coalesce_labels=type&coalesce_window_ms=3000")
	byN, _ := s.feed(t, "coalesce_labels=n&coalesce_window_ms=3000")
	put(t, s.api, "/a", 1, 4)
	require.Equal(t, []string{`{"n":1}`, `{"n":2}`, `{"n":3}`, `{"n":4}`}, every.events(4))
	f := byType.frame()
	require.Equal(t, []any{uint64(4), 4}, []any{f.Seq, f.Coalesced})
	require.Equal(t, []string{`{"n":1}`, `{"n":2}`, `{"n":3}`, `{"n":4}`}, byN.events(4))
}

// S2-36, S2-140: with since=last_per_path a reader is shown what is, page by page, and then what comes, however many publish
// meanwhile; the filter holds for both.
func TestFeed_BeginsWithTheState(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	const paths = 130 // more than a page
	publish := func(n int, kind string) {
		var events []sluice.Event
		for i := range paths {
			events = append(events, sluice.Event{Path: sluice.Path(fmt.Sprintf("/k/%d", i)), Type: kind, Subject: fmt.Sprintf("urn:%d", i%2), Data: fmt.Appendf(nil, `{"n":%d}`, n)})
		}
		_, err := s.api.Publish(t.Context(), "default", events...)
		require.NoError(t, err)
	}
	publish(1, "early")
	publish(2, "late")
	put(t, s.api, "/k/0", 1, 1) // whose last event is of no type that is wanted
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	seen := map[sluice.Path][]string{}
	var after uint64
	count, subscribed := 0, false
	query := client.FeedQuery{Pattern: "/k/*", Types: []string{"early", "late"}, Subjects: []string{"urn:0"}, Since: client.LastPerPath}
	for item, err := range s.api.Feed(ctx, "default", query) {
		require.NoError(t, err)
		if item.Event == nil {
			require.NotNil(t, item.Subscribed)
			require.Equal(t, paths/2-1, count, "first what is")
			subscribed = true
			continue
		}
		require.Greater(t, item.Seq, after, "in the order of the log")
		require.Equal(t, strconv.FormatUint(item.Seq, 10), item.Resume)
		after = item.Seq
		seen[item.Event.Path] = append(seen[item.Event.Path], string(item.Event.Data))
		if count++; count == 1 {
			publish(3, "late") // while it is read
		}
		if count == paths-1 {
			break
		}
	}
	require.True(t, subscribed)
	require.Len(t, seen, paths/2)
	require.Equal(t, []string{`{"n":3}`}, seen["/k/0"])
	require.Equal(t, []string{`{"n":2}`, `{"n":3}`}, seen["/k/2"])
	got := s.must(t, http.StatusBadRequest, "GET "+feedAt+"?since=last_per_path", "")
	require.Contains(t, got.text, "read the state", "over HTTP it is two requests")
}

// S2-140: a state has the filter of a feed, over the last event of each path: one that it leaves out does not show the event before.
func TestState_IsFilteredLikeAFeed(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	s.must(t, http.StatusCreated, "PUT /v1/namespaces/default/event-types/paid", `{"static_labels":{"team":"money"}}`)
	s.must(t, http.StatusCreated, "POST /v1/namespaces/default/events", `[{"path":"/o/1","type":"paid","source":"/shop","data":{"region":"eu","total":5}},
		{"path":"/o/1","type":"sent","source":"/till","data":{"region":"us","total":50}},
		{"path":"/o/2","type":"paid","source":"/shop","subject":"urn:x","data":{"region":"eu","total":500}}]`)
	for query, want := range map[string]string{
		"types=paid": "/o/2", "types=sent": "/o/1", "sources=/shop": "/o/2", "subjects=urn:x": "/o/2", "target=entity:urn:x": "/o/2", "labels=region=us": "/o/1",
		"labels=team=money": "/o/2", "cel=event.data.total%3E100": "/o/2", `filter={"types":["paid"]}`: "/o/2", "cel=1/(event.data.total-50)%3E-1": "/o/2",
	} {
		shown := shownIn(t, s.must(t, http.StatusOK, "GET /v1/namespaces/default/state?"+query, ""))
		require.Len(t, shown, 1, query)
		require.Contains(t, shown, want, query)
	}
}
