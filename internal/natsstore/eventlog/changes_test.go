package eventlog_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/natsstore/eventlog"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// changes returns the changes behind a sequence as "op seq id", page by page.
func changes(tb testing.TB, store rooms, q model.ChangeQuery) (all []string) {
	tb.Helper()
	for {
		page, err := store.Changes(tb.Context(), ns, q)
		require.NoError(tb, err)
		require.LessOrEqual(tb, len(page.Items), max(q.Limit, 1000))
		before := q.Since
		for _, c := range page.Items {
			require.Greater(tb, c.Event.Seq, before, "ascending")
			before = c.Event.Seq
			all = append(all, fmt.Sprint(c.Op, " ", c.Event.Seq, " ", c.Event.ID))
		}
		require.LessOrEqual(tb, before, max(page.ThroughSeq, q.Since))
		if !page.HasMore {
			require.GreaterOrEqual(tb, page.ThroughSeq, page.LastSeq)
			return all
		}
		require.Greater(tb, page.ThroughSeq, q.Since, "a page that is not the last one goes on")
		q.Since = page.ThroughSeq
	}
}

// publishAt stores events with the ids, one after the other, all at the path.
func publishAt(tb testing.TB, store rooms, path sluice.Path, ids ...string) {
	tb.Helper()
	for _, id := range ids {
		_, err := store.Publish(tb.Context(), ns, []sluice.Event{{ID: id, Path: path, Type: "t", ContentType: "application/json", Data: []byte(`{"of": "` + id + `"}`)}})
		require.NoError(tb, err)
	}
}

// S3-40, S3-48, S3-55, S3-59: pages have every event once, in the order of the log, and pass over what is none.
func TestChanges_AreTheContentInOrder(t *testing.T) {
	t.Parallel()
	store, server := provisioned(t)
	page, err := store.Changes(t.Context(), ns, model.ChangeQuery{Since: 7})
	require.NoError(t, err)
	require.NotNil(t, page.Items)
	page.Incarnation, page.FirstSeq = "", 0
	require.Equal(t, sluice.ObservePage{ThroughSeq: 7, Items: []sluice.Change{}}, page, "an empty log")

	js := natstest.JetStream(t, server)
	publishAt(t, store, "/a", "a1", "a2")
	publishAt(t, store, "/_sys/x", "system")
	_, err = store.CommitPaths(t.Context(), ns, eventlog.PathCommit{Fence: eventlog.PathFence{Path: "/a"}, Puts: []eventlog.PathPut{{PathFence: eventlog.PathFence{Path: "/a"}, Data: []byte("{}"), For: eventlog.RecordForever}}})
	require.NoError(t, err)
	_, err = js.Publish(t.Context(), "events.default.b", []byte("{"), jetstream.WithMsgID("none")) // an event all the same
	require.NoError(t, err)
	_, err = js.PublishMsg(t.Context(), &nats.Msg{Subject: "events.default.b", Header: nats.Header{"content-type": {"application/cloudevents+json"}}, Data: []byte("{")})
	require.NoError(t, err)
	_, err = store.Publish(t.Context(), ns, []sluice.Event{{ID: "a1-2", Path: "/a", Extensions: map[string]string{sluice.RevisionOf: "a1"}}})
	require.NoError(t, err)
	publishAt(t, store, "/_sys/x", "system-2")

	want := []string{"write 1 a1", "write 2 a2", "write 5 none", "revise 7 a1-2"}
	for _, limit := range []int{0, 1, 2, 3, 5000} {
		require.Equal(t, want, changes(t, store, model.ChangeQuery{Limit: limit}), limit)
	}
	require.Equal(t, want[3:], changes(t, store, model.ChangeQuery{Since: 5}))
	page, err = store.Changes(t.Context(), ns, model.ChangeQuery{Since: 2})
	require.NoError(t, err)
	require.Equal(t, []any{uint64(1), uint64(8), uint64(8), false}, []any{page.FirstSeq, page.LastSeq, page.ThroughSeq, page.HasMore})
	require.JSONEq(t, `{"of":"a2"}`, string(mustFirst(t, store, 1).Event.Data))
	id, err := store.Incarnation(t.Context(), ns)
	require.NoError(t, err)
	require.Equal(t, id, page.Incarnation)
	for _, since := range []uint64{9, 1 << 62} {
		page, err = store.Changes(t.Context(), ns, model.ChangeQuery{Since: since})
		require.NoError(t, err)
		require.Empty(t, page.SinceTag)
		require.Equal(t, []uint64{since, 8}, []uint64{page.ThroughSeq, page.LastSeq})
	}
	_, err = store.Changes(t.Context(), "nowhere", model.ChangeQuery{})
	requireCode(t, sluice.NotFound, err)
}

// Issue 16: a page has the tags of the messages at both of its ends, events or not; a message that was stored again has another.
func TestChanges_TagTheEndsOfAPage(t *testing.T) {
	t.Parallel()
	store, server := provisioned(t)
	publishAt(t, store, "/a", "a1", "a2")
	publishAt(t, store, "/_sys/x", "system")
	through := map[uint64]string{}
	for end := range uint64(3) {
		page, err := store.Changes(t.Context(), ns, model.ChangeQuery{Since: end, Limit: 1})
		require.NoError(t, err)
		require.Equal(t, through[end], page.SinceTag)
		require.Equal(t, end+1, page.ThroughSeq)
		require.Len(t, page.ThroughTag, 8)
		through[page.ThroughSeq] = page.ThroughTag
	}
	log, err := natstest.JetStream(t, server).Stream(t.Context(), streams.Names{}.EventsStream(ns))
	require.NoError(t, err)
	require.NoError(t, log.SecureDeleteMsg(t.Context(), 2))
	page, err := store.Changes(t.Context(), ns, model.ChangeQuery{Since: 2})
	require.NoError(t, err)
	require.Equal(t, []string{"", through[3]}, []string{page.SinceTag, page.ThroughTag}, "nothing is stored at 2")
	require.NotEqual(t, through[1], through[3])
}

func mustFirst(tb testing.TB, store rooms, since uint64) sluice.Change {
	tb.Helper()
	page, err := store.Changes(tb.Context(), ns, model.ChangeQuery{Since: since, Limit: 1})
	require.NoError(tb, err)
	require.Len(tb, page.Items, 1)
	return page.Items[0]
}

// S3-40: what the caller may not read is passed over as if it did not exist, also at the place that the caller names, and a
// caller that may read little of a long log gets pages that end.
func TestChanges_PassOverHiddenEvents(t *testing.T) {
	t.Parallel()
	store, _ := provisioned(t)
	var batch []sluice.Event
	for n := range 11_000 {
		batch = append(batch, sluice.Event{ID: fmt.Sprint("h", n), Path: "/hidden"})
		if len(batch) == 1000 {
			_, err := store.Publish(t.Context(), ns, batch)
			require.NoError(t, err)
			batch = nil
		}
	}
	publishAt(t, store, "/shown", "s")
	q := model.ChangeQuery{Visible: func(ev *sluice.Event) bool { return ev.Path == "/shown" }}
	page, err := store.Changes(t.Context(), ns, q)
	require.NoError(t, err)
	require.Empty(t, page.Items)
	require.Equal(t, []any{uint64(10_000), true}, []any{page.ThroughSeq, page.HasMore})
	require.Equal(t, []string{"write 11001 s"}, changes(t, store, q))
}

// A page of large events ends before it takes much memory, and has one at least.
func TestChanges_LargeEventsMakeShortPages(t *testing.T) {
	t.Parallel()
	store, _ := provisioned(t)
	const count = 13
	for n := range count {
		_, err := store.Publish(t.Context(), ns, []sluice.Event{{ID: strconv.Itoa(n), Path: "/a", Data: []byte(strings.Repeat("x", 900<<10))}})
		require.NoError(t, err)
	}
	page, err := store.Changes(t.Context(), ns, model.ChangeQuery{})
	require.NoError(t, err)
	require.True(t, page.HasMore)
	require.Less(t, len(page.Items), 7)
	require.Len(t, changes(t, store, model.ChangeQuery{}), count)
}

// S3-57: an erased event leaves a record of its id and nothing else, which follows as a deletion. Other readers of the log pass
// over it.
func TestErasePath_LeavesIDsOnly(t *testing.T) {
	t.Parallel()
	store, server := provisioned(t)
	publishAt(t, store, "/people/secret-name", "p1", "p2")
	publishAt(t, store, "/other", "o1")
	publishAt(t, store, "/_sys/x", "system")
	publishAt(t, store, "/people/secret-name", "p3", "later")
	last, err := store.LastSeq(t.Context(), ns)
	require.NoError(t, err)
	require.NoError(t, store.ErasePath(t.Context(), ns, "/people/secret-name", last-1))
	require.NoError(t, store.ErasePath(t.Context(), ns, "/_sys/x", last), "of a system event there is no record")

	require.Equal(t, []string{"write 3 o1", "write 6 later", "delete 7 p1", "delete 8 p2", "delete 9 p3"}, changes(t, store, model.ChangeQuery{}))
	deletion := mustFirst(t, store, 6)
	require.Equal(t, sluice.Change{Op: sluice.OpDelete, Event: sluice.Event{Namespace: ns, Seq: 7, ID: "p1"}, ErasedSeq: 1}, deletion)
	stream, err := natstest.JetStream(t, server).Stream(t.Context(), streams.Names{}.EventsStream(ns))
	require.NoError(t, err)
	for seq := uint64(7); seq <= 9; seq++ {
		record, err := stream.GetMsg(t.Context(), seq)
		require.NoError(t, err)
		require.Equal(t, streams.Names{}.ErasedSubject(ns), record.Subject)
		require.Regexp(t, `^\{"id":"p\d","seq":[125],"on":"[\w-]{22}"\}$`, string(record.Data))
		require.Equal(t, []string{streams.HeaderNote}, publishersHeaders(record.Header))
		require.NotContains(t, fmt.Sprint(record.Header, string(record.Data)), "secret-name")
	}
	passedOver(t, store, "o1", "later")
}

// publishersHeaders returns the names of the headers that are not JetStream's.
func publishersHeaders(h nats.Header) (names []string) {
	for name := range h {
		if !strings.HasPrefix(name, "Nats-") {
			names = append(names, name)
		}
	}
	return names
}

// passedOver checks that readers of the log see events with the ids, besides system events, and nothing else.
func passedOver(t *testing.T, store rooms, ids ...string) {
	t.Helper()
	first, last, err := store.Bounds(t.Context(), ns)
	require.NoError(t, err)
	page, err := store.Events(t.Context(), ns, model.EventQuery{})
	require.NoError(t, err)
	require.Equal(t, ids, idsOf(page.Events))
	events, reached, err := store.FeedPage(t.Context(), ns, "/**", first-1, last)
	require.NoError(t, err)
	require.Equal(t, ids, idsOf(events))
	require.Equal(t, last, reached)
	state, err := store.State(t.Context(), ns, model.StateQuery{})
	require.NoError(t, err)
	require.Equal(t, ids, idsOf(state.Events))
	ends := map[sluice.Path]bool{}
	require.NoError(t, store.PathEnds(t.Context(), ns, "/**", func(p sluice.Path, _ uint64) { ends[p] = true }))
	require.Len(t, ends, len(ids))

	ctx, stop := context.WithCancel(t.Context())
	var tailed []sluice.Event
	err = store.TailEvents(ctx, ns, 0, func(ev sluice.Event) error {
		if tailed = append(tailed, ev); ev.ID == "end" {
			stop()
		} else if len(tailed) == len(ids) {
			publishAt(t, store, "/end", "end")
		}
		return nil
	})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, append(ids, "end"), idsOf(tailed))
}

func idsOf(events []sluice.Event) (ids []string) {
	for i := range events {
		ids = append(ids, events[i].ID)
	}
	return ids
}

// S3-57: a deletion is told to callers that could read the erased event: its path, and with its label.
func TestChanges_DeletionsFollowTheirPath(t *testing.T) {
	t.Parallel()
	store, _ := provisioned(t)
	publishAt(t, store, "/a", "a1")
	publishAt(t, store, "/b", "b1")
	_, err := store.Publish(t.Context(), ns, []sluice.Event{{ID: "a-secret", Path: "/a", Extensions: map[string]string{sluice.AttributeClassification: "SECRET"}}})
	require.NoError(t, err)
	require.NoError(t, store.ErasePath(t.Context(), ns, "/a", 3))
	require.NoError(t, store.ErasePath(t.Context(), ns, "/b", 3))
	all := []string{"delete 4 a1", "delete 5 a-secret", "delete 6 b1"}
	for _, c := range []struct {
		of      []sluice.Path
		every   bool
		cleared bool
		want    []string
	}{
		{nil, false, true, nil},
		{[]sluice.Path{"/c"}, false, true, nil},
		{[]sluice.Path{"/b"}, false, true, all[2:]},
		{[]sluice.Path{"/a"}, false, true, all[:2]},
		{[]sluice.Path{"/a"}, false, false, all[:1]},
		{nil, true, true, all},
		{nil, true, false, []string{all[0], all[2]}},
	} {
		require.Equal(t, c.want, changes(t, store, model.ChangeQuery{Erased: func(label string) ([]sluice.Path, bool) {
			if label != "" && !c.cleared {
				return nil, false
			}
			return c.of, c.every
		}}), c)
	}
	require.Equal(t, all, changes(t, store, model.ChangeQuery{}))
}

// S3-57: a client that may publish to the subject of the records has nothing deleted elsewhere: neither with a text of its own nor
// with a proof of another text, of another namespace, or of a note.
func TestChanges_ForgedDeletionsAreIgnored(t *testing.T) {
	t.Parallel()
	store, server := provisioned(t)
	_, _, err := store.core.Namespaces().Put(t.Context(), sluice.Namespace{Name: "evil"})
	require.NoError(t, err)
	_, err = store.Publish(t.Context(), "evil", []sluice.Event{{ID: "kept", Path: "/a"}})
	require.NoError(t, err)
	require.NoError(t, store.ErasePath(t.Context(), "evil", "/a", 1))
	publishAt(t, store, "/a", "kept", "gone")
	require.NoError(t, store.ErasePath(t.Context(), ns, "/a", 2))
	publishAt(t, store, "/a", "new")
	want := changes(t, store, model.ChangeQuery{})
	require.Equal(t, []string{"delete 3 kept", "delete 4 gone", "write 5 new"}, want)

	js := natstest.JetStream(t, server)
	header := func(namespace string, seq uint64) (nats.Header, []byte) {
		stream, err := js.Stream(t.Context(), streams.Names{}.EventsStream(namespace))
		require.NoError(t, err)
		msg, err := stream.GetMsg(t.Context(), seq)
		require.NoError(t, err)
		return nats.Header{streams.HeaderNote: msg.Header[streams.HeaderNote]}, msg.Data
	}
	_, err = store.CommitPaths(t.Context(), ns, eventlog.PathCommit{Fence: eventlog.PathFence{Path: "/n"}, Events: []sluice.Event{{ID: "noted", Path: "/n"}}, Note: []byte(`{"id":"new","seq":5}`)})
	require.NoError(t, err)
	own, text := header(ns, 3)
	others, othersText := header("evil", 2)
	noted, _ := header(ns, 6)
	forged := []byte(`{"id":"new","seq":5}`)
	for _, msg := range []*nats.Msg{
		{Data: forged},
		{Data: forged, Header: own},
		{Data: append(text, ' '), Header: own},
		{Data: othersText, Header: others},
		{Data: forged, Header: noted},
		{Data: text, Header: nats.Header{streams.HeaderNote: {"."}}},
		{Data: text, Header: nats.Header{streams.HeaderNote: {"%.%"}}},
	} {
		msg.Subject = streams.Names{}.ErasedSubject(ns)
		_, err := js.PublishMsg(t.Context(), msg)
		require.NoError(t, err)
	}
	require.Equal(t, append(want, "write 6 noted"), changes(t, store, model.ChangeQuery{}))
}

// S3-57: many events are erased and recorded, and one that was published meanwhile stays.
func TestErasePath_RecordsEveryEvent(t *testing.T) {
	t.Parallel()
	store, _ := provisioned(t)
	const count = 5000
	for n := range count / 1000 {
		batch := make([]sluice.Event, 1000)
		for i := range batch {
			batch[i] = sluice.Event{ID: strconv.Itoa(1000*n + i), Path: "/a"}
		}
		_, err := store.Publish(t.Context(), ns, batch)
		require.NoError(t, err)
	}
	publishAt(t, store, "/a", "later")
	require.NoError(t, store.ErasePath(t.Context(), ns, "/a", count))
	got := changes(t, store, model.ChangeQuery{Limit: 1000})
	require.Len(t, got, 1+count)
	require.Equal(t, "write 5001 later", got[0])
	for n := range count {
		require.Equal(t, fmt.Sprintf("delete %d %d", 5002+n, n), got[1+n])
	}
	require.NoError(t, store.ErasePath(t.Context(), ns, "/a", count), "again")
	require.Len(t, changes(t, store, model.ChangeQuery{Limit: 1000}), 1+count)
}

// S3-57: a log that refuses events for lack of room is erased all the same, and the room that this makes is used for the records.
func TestErasePath_WorksInAFullLog(t *testing.T) {
	t.Parallel()
	store, _ := provisioned(t)
	for n := range 20 {
		_, err := store.Publish(t.Context(), ns, []sluice.Event{{ID: strconv.Itoa(n), Path: "/a", Data: []byte(strings.Repeat("x", 1000))}})
		require.NoError(t, err)
	}
	require.NoError(t, store.core.Bind(t.Context(), sluice.StorageTight, 1<<30))
	_, err := store.Publish(t.Context(), ns, []sluice.Event{{ID: "more", Path: "/a"}})
	requireCode(t, sluice.Unavailable, err)
	require.NoError(t, store.ErasePath(t.Context(), ns, "/a", 20))
	require.Len(t, changes(t, store, model.ChangeQuery{}), 20)
}

// S3-57: where not even a record fits, the events go without one.
func TestErasePath_GoesBeforeItsRecords(t *testing.T) {
	t.Parallel()
	server := natstest.New(t)
	store := connected(t, natsstore.Options{Conn: server})
	require.NoError(t, store.core.Provision(t.Context()))
	js := natstest.JetStream(t, server)
	_, err := js.Publish(t.Context(), "events.default.a", nil)
	require.NoError(t, err)
	require.NoError(t, store.core.Bind(t.Context(), sluice.StorageTight, 1<<30))
	require.NoError(t, store.ErasePath(t.Context(), ns, "/a", 1))
	require.Empty(t, changes(t, store, model.ChangeQuery{}))
}

// S3-57: the records of many events do not push the oldest events of others out of a log of limited size: events go as their
// records come.
func TestErasePath_KeepsTheOldestOfOthers(t *testing.T) {
	t.Parallel()
	store, _ := provisioned(t)
	publishAt(t, store, "/other", "oldest")
	const count = 10_000
	for n := range count / 1000 {
		batch := make([]sluice.Event, 1000)
		for i := range batch {
			batch[i] = sluice.Event{ID: strconv.Itoa(1000*n + i), Path: "/a", Data: []byte(strings.Repeat("x", 300))}
		}
		_, err := store.Publish(t.Context(), ns, batch)
		require.NoError(t, err)
	}
	is, err := store.core.Namespaces().Get(t.Context(), ns)
	require.NoError(t, err)
	const room = 3 << 19 // of some 5,500 records
	_, _, err = store.core.Namespaces().Put(t.Context(), sluice.Namespace{Name: ns, Retention: sluice.Retention{MaxBytes: int64(is.Usage.Bytes) + room}})
	require.NoError(t, err)
	require.NoError(t, store.ErasePath(t.Context(), ns, "/a", count+1))
	got := changes(t, store, model.ChangeQuery{Limit: 1000})
	require.Equal(t, 1+count, len(got)) //nolint:testifylint // a failure need not show all of them
	require.Equal(t, "write 1 oldest", got[0])
}
