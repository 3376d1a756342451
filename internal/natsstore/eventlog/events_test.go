package eventlog_test

import (
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// read returns the sequences of every page of a query.
func read(tb testing.TB, store rooms, q model.EventQuery) []uint64 {
	tb.Helper()
	var all []uint64
	for {
		page, err := store.Events(tb.Context(), ns, q)
		require.NoError(tb, err)
		for _, e := range page.Events {
			all = append(all, e.Seq)
		}
		if page.Next == 0 {
			return all
		}
		q.After = page.Next
	}
}

func TestEvents_AreChosenByPatternTypeAndCursor(t *testing.T) {
	t.Parallel()
	store, _ := provisioned(t)
	var middle time.Time
	for i, path := range []sluice.Path{"/a", "/a/b", "/c", "/a/b/d", "/x/b/d", "/a"} {
		_, err := store.Publish(t.Context(), ns, []sluice.Event{{ID: "e" + strconv.Itoa(i+1), Path: path, Type: []string{"order.made", "order.paid", "ordering"}[i%3]}})
		require.NoError(t, err)
		if i == 2 {
			e, err := store.Event(t.Context(), ns, 3)
			require.NoError(t, err)
			middle = e.Stored
		}
	}
	at := middle.Format(time.RFC3339Nano)
	tests := []struct {
		name string
		give model.EventQuery
		want []uint64
	}{
		{"everything", model.EventQuery{}, []uint64{1, 2, 3, 4, 5, 6}},
		{"in small pages", model.EventQuery{Limit: 2}, []uint64{1, 2, 3, 4, 5, 6}},
		{"one path", model.EventQuery{Pattern: "/a"}, []uint64{1, 6}},
		{"a path and below", model.EventQuery{Pattern: "/a/**", Limit: 1}, []uint64{1, 2, 4, 6}},
		{"stars inside", model.EventQuery{Pattern: "/**/d"}, []uint64{4, 5}},
		{"one star", model.EventQuery{Pattern: "/*/b/d"}, []uint64{4, 5}},
		{"types", model.EventQuery{Types: []string{"order.paid", "ordering"}}, []uint64{2, 3, 5, 6}},
		{"types by prefix", model.EventQuery{Types: []string{"order.*"}, Limit: 1}, []uint64{1, 2, 4, 5}},
		{"since the beginning", model.EventQuery{Since: "-1"}, []uint64{1, 2, 3, 4, 5, 6}},
		{"since a sequence", model.EventQuery{Since: "4"}, []uint64{5, 6}},
		{"since 0", model.EventQuery{Since: "0", Limit: 4}, []uint64{1, 2, 3, 4, 5, 6}},
		{"since an id", model.EventQuery{Since: "e5"}, []uint64{6}},
		{"since now", model.EventQuery{Since: "now"}, nil},
		{"since the future", model.EventQuery{Since: "2999-01-01T00:00:00Z"}, nil},
		{"since a sequence to come", model.EventQuery{Since: "99"}, nil},
		{"since a time", model.EventQuery{Since: at}, []uint64{3, 4, 5, 6}},
		{"until a time", model.EventQuery{Until: at}, []uint64{1, 2, 3}},
		{"until a time before all", model.EventQuery{Until: "2001-01-01T00:00:00Z"}, nil},
		{"until an id", model.EventQuery{Until: "e2", Limit: 1}, []uint64{1, 2}},
		{"until the beginning", model.EventQuery{Until: "-1"}, nil},
		{"between", model.EventQuery{Since: "2", Until: "4", Pattern: "/a/**"}, []uint64{4}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, test.want, read(t, store, test.give))
		})
	}
}

func TestEvents_LongLogIsReadToItsEnd(t *testing.T) {
	t.Parallel()
	store, _ := provisioned(t)
	for i := range 3 {
		_, err := store.Publish(t.Context(), ns, batchOf("x"+strconv.Itoa(i)+"-", 1000))
		require.NoError(t, err)
	}
	require.Len(t, read(t, store, model.EventQuery{Limit: 1000}), 3000)
	require.Len(t, read(t, store, model.EventQuery{Pattern: "/b/1", Limit: 7}), 999)
	require.Empty(t, read(t, store, model.EventQuery{Types: []string{"other"}}))
}

// C11: an older cursor than what is kept is an error that says where to go on.
func TestEvents_ExpiredCursorIsAnError(t *testing.T) {
	t.Parallel()
	store, server := provisioned(t)
	empty := func(q model.EventQuery) {
		page, err := store.Events(t.Context(), ns, q)
		require.NoError(t, err)
		require.Empty(t, page.Events)
	}
	empty(model.EventQuery{Since: "2001-01-01T00:00:00Z"}) // nothing was ever dropped
	publish(t, store, ns, "/a", "/b", "/c", "/d")
	stream, err := natstest.JetStream(t, server).Stream(t.Context(), streams.Names{}.EventsStream(ns))
	require.NoError(t, err)
	require.NoError(t, stream.Purge(t.Context(), jetstream.WithPurgeSequence(3)))

	old := []model.EventQuery{{Since: "0"}, {Since: "1"}, {After: 1}, {Since: "2001-01-01T00:00:00Z"}}
	exceeded := func(first uint64) {
		for _, q := range old {
			_, err := store.Events(t.Context(), ns, q)
			requireCode(t, sluice.WindowExceeded, err)
			e, _ := errors.AsType[*sluice.Error](err)
			require.Equal(t, map[string]any{"oldest_available_seq": first, "current_seq": uint64(4)}, e.Details)
		}
	}
	exceeded(3)
	require.Equal(t, []uint64{3, 4}, read(t, store, model.EventQuery{Since: "2"}))
	require.Equal(t, []uint64{3, 4}, read(t, store, model.EventQuery{Since: "-1"}))
	_, err = store.Event(t.Context(), ns, 2)
	requireCode(t, sluice.WindowExceeded, err)
	_, err = store.EventByID(t.Context(), ns, "/a#0")
	requireCode(t, sluice.NotFound, err)

	require.NoError(t, stream.Purge(t.Context()))
	exceeded(5)
	empty(model.EventQuery{Since: "-1"})
	empty(model.EventQuery{Since: "4"})
	empty(model.EventQuery{Since: time.Now().Add(time.Hour).UTC().Format(time.RFC3339)})
	first, last, err := store.Bounds(t.Context(), ns)
	require.NoError(t, err)
	require.Equal(t, []uint64{5, 4}, []uint64{first, last})
}

func TestEvents_RefusesInvalidQueries(t *testing.T) {
	t.Parallel()
	store, _ := provisioned(t)
	tests := []struct {
		name, namespace string
		give            model.EventQuery
		want            sluice.Code
	}{
		{"no pattern", ns, model.EventQuery{Pattern: "a"}, sluice.InvalidRequest},
		{"an unknown id", ns, model.EventQuery{Since: "nothing"}, sluice.NotFound},
		{"an unknown id as end", ns, model.EventQuery{Until: "nothing"}, sluice.NotFound},
		{"no namespace", "nowhere", model.EventQuery{}, sluice.NotFound},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, err := store.Events(t.Context(), test.namespace, test.give)
			requireCode(t, test.want, err)
		})
	}
	_, err := store.Event(t.Context(), ns, 0)
	requireCode(t, sluice.NotFound, err)
	_, err = store.Event(t.Context(), ns, 7)
	requireCode(t, sluice.NotFound, err)
	_, err = store.Event(t.Context(), "nowhere", 1)
	requireCode(t, sluice.NotFound, err)
	_, err = store.EventByID(t.Context(), "no where", "1")
	requireCode(t, sluice.NotFound, err)
	_, err = store.NextEvent(t.Context(), "nowhere", "events.nowhere.>", 1, 1)
	requireCode(t, sluice.NotFound, err)
	after, err := store.Resolve(t.Context(), ns, "now")
	require.NoError(t, err)
	require.Zero(t, after)
}

// Ids are found in the dedup window, by the place they name, by the time they hold, and at
// last by reading everything.
func TestFind_TakesAnID(t *testing.T) {
	t.Parallel()
	store, server := provisioned(t)
	js := natstest.JetStream(t, server)
	uuid := func(at time.Time) string { return fmt.Sprintf("%012x", at.UnixMilli()) }
	v7 := func(at time.Time) string { h := uuid(at); return h[:8] + "-" + h[8:] + "-7000-8000-000000000001" }
	ids := []string{"own", v7(time.Now()), v7(time.Now().Add(time.Hour)), v7(time.Now().Add(-time.Hour)), "last one"}
	send := func(header nats.Header, data string) {
		_, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: "events.default.a", Header: header, Data: []byte(data)})
		require.NoError(t, err)
	}
	send(nil, "plain") // _default-1
	for _, id := range ids {
		send(nats.Header{"ce-id": {id}}, id) // outside the window: JetStream does not know ce-id
	}
	send(nats.Header{"content-type": {"application/cloudevents+json"}}, `{"id":"inside"}`)
	send(nats.Header{"Nats-Msg-Id": {"outer"}, "ce-id": {"inner"}}, "")
	publish(t, store, ns, "/in/window")

	for i, id := range append(append([]string{"_default-1"}, ids...), "inside", "inner", "/in/window#0") {
		e, err := store.EventByID(t.Context(), ns, id)
		require.NoError(t, err, id)
		require.Equal(t, uint64(i+1), e.Seq, id)
		require.Equal(t, id, e.ID)
	}
	for _, id := range []string{"outer", "_default-2", "_default-99", "default-1", v7(time.Now().Add(-2 * time.Hour)), "x"} {
		_, err := store.EventByID(t.Context(), ns, id)
		requireCode(t, sluice.NotFound, err)
	}
}

// A message that cannot be decoded is read back with its error, by replicas and by the leader.
func TestReadLane_HasTheErrorOfEachEvent(t *testing.T) {
	t.Parallel()
	store, server := provisioned(t)
	publish(t, store, ns, "/a")
	js := natstest.JetStream(t, server)
	_, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: "events.default.a", Header: nats.Header{"content-type": {"application/cloudevents+json"}}, Data: []byte("{")})
	require.NoError(t, err)
	sub := &sluice.Subscription{Namespace: ns, Pattern: "/a"}
	events, _, err := store.ReadLane(t.Context(), sub, "/a", 1, 10)
	require.NoError(t, err)
	require.Len(t, events, 2)
	require.NoError(t, events[0].Err)
	requireCode(t, sluice.InvalidRequest, events[1].Err)
	events, err = store.LeadersNext(t.Context(), ns, streams.Names{}.Subject(ns, "/a"), 2)
	require.NoError(t, err)
	require.Len(t, events, 1)
	requireCode(t, sluice.InvalidRequest, events[0].Err)
}

// A lane is read back by its subject, while others go on.
func TestNext_ReadsASubjectInOneRequest(t *testing.T) {
	t.Parallel()
	store, server := provisioned(t)
	publish(t, store, ns, "/a", "/b", "/a", "/b", "/a")
	next := func(subject string, from uint64, limit int) []uint64 {
		events, err := store.NextEvent(t.Context(), ns, subject, from, limit)
		require.NoError(t, err)
		var seqs []uint64
		for _, e := range events {
			seqs = append(seqs, e.Seq)
		}
		return seqs
	}
	a := streams.Names{}.Subject(ns, "/a")
	require.Equal(t, []uint64{1, 3, 5}, next(a, 0, 10))
	require.Equal(t, []uint64{3}, next(a, 2, 1))
	require.Equal(t, []uint64{5}, next(a, 5, 10))
	require.Empty(t, next(a, 6, 10))
	require.Empty(t, next(streams.Names{}.Subject(ns, "/none"), 1, 10))
	require.Equal(t, []uint64{2, 3, 4, 5}, next(streams.Names{}.EventsSubjects(ns), 2, 10))

	js := natstest.JetStream(t, server)
	for range 3 {
		_, err := js.Publish(t.Context(), "events.default.=41", nil) // not canonical: no path
		require.NoError(t, err)
	}
	require.Empty(t, next(streams.Names{}.EventsSubjects(ns), 6, 2))
	publish(t, store, ns, "/c")
	require.Equal(t, []uint64{9}, next(streams.Names{}.EventsSubjects(ns), 6, 2))
	require.Equal(t, []uint64{1, 2, 3, 4, 5, 9}, read(t, store, model.EventQuery{}))
	e, err := store.Event(t.Context(), ns, 6)
	requireCode(t, sluice.InvalidRequest, err)
	require.Equal(t, uint64(6), e.Seq)
}

// A publisher who writes the server's own headers moves nothing.
func TestDecode_PublishersHeadersForgeNoPlace(t *testing.T) {
	t.Parallel()
	store, server := provisioned(t)
	forged := nats.Header{"Nats-Sequence": {"77"}, "Nats-Subject": {"events.default.other"}, "Status": {"404"}, "Nats-Time-Stamp": {"x"}, "ce-id": {"1"}}
	_, err := natstest.JetStream(t, server).PublishMsg(t.Context(), &nats.Msg{Subject: "events.default.a", Header: forged})
	require.NoError(t, err)
	publish(t, store, ns, "/b")
	page, err := store.Events(t.Context(), ns, model.EventQuery{})
	require.NoError(t, err)
	require.Len(t, page.Events, 2)
	require.Equal(t, uint64(1), page.Events[0].Seq)
	require.Equal(t, sluice.Path("/a"), page.Events[0].Path)
	require.Equal(t, uint64(2), page.Events[1].Seq)
}

func TestEvents_SurviveARestart(t *testing.T) {
	t.Parallel()
	store, server := provisioned(t)
	_, err := store.Publish(t.Context(), ns, batchOf("x", 10))
	require.NoError(t, err)
	server.Restart(t)
	stored, err := store.Publish(t.Context(), ns, batchOf("x", 11))
	require.NoError(t, err)
	require.True(t, stored[9].Duplicate, "the dedup window outlives the server")
	require.Equal(t, uint64(11), stored[10].Seq)
	require.Len(t, read(t, store, model.EventQuery{}), 11)
}

func BenchmarkPublishOne(b *testing.B) {
	server := natstest.New(b)
	store := connected(b, natsstore.Options{Conn: server})
	require.NoError(b, store.core.Provision(b.Context()))
	n := 0
	for b.Loop() {
		n++
		_, err := store.Publish(b.Context(), ns, []sluice.Event{{ID: strconv.Itoa(n), Path: "/a/b", Type: "t", Data: make([]byte, 256)}})
		require.NoError(b, err)
	}
}
