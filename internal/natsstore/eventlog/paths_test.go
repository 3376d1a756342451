package eventlog_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/natsstore/eventlog"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/pkg/sluice"
)

const streamPath sluice.Path = "/v1/a b"

func recordPut(data string, revision uint64) []eventlog.PathPut {
	return []eventlog.PathPut{{PathFence: eventlog.PathFence{Path: streamPath, Revision: revision}, Data: []byte(data), For: eventlog.RecordForever}}
}

func eventsAt(path sluice.Path, ids ...string) []sluice.Event {
	events := make([]sluice.Event, len(ids))
	for i, id := range ids {
		events[i] = sluice.Event{ID: id, Path: path, Data: []byte(id)}
	}
	return events
}

func eventIDs(events []sluice.Event) (ids []string) {
	for _, e := range events {
		ids = append(ids, e.ID)
	}
	return ids
}

func TestRecord_IsStoredWithItsEventsOrNotAtAll(t *testing.T) {
	t.Parallel()
	store, _ := provisioned(t)
	commit := func(c eventlog.PathCommit) (uint64, error) { return store.CommitPaths(t.Context(), ns, c) }
	data, revision, err := store.PathRecord(t.Context(), ns, streamPath)
	require.NoError(t, err)
	require.Zero(t, revision)
	require.Empty(t, data)

	last, err := commit(eventlog.PathCommit{Events: eventsAt(streamPath, "a", "b"), Puts: recordPut("one", 0), Fence: eventlog.PathFence{Path: streamPath}})
	require.NoError(t, err)
	data, revision, err = store.PathRecord(t.Context(), ns, streamPath)
	require.NoError(t, err)
	require.Equal(t, "one", string(data))
	require.Equal(t, last+1, revision, "the events lie before the record")
	tail, err := store.PathTail(t.Context(), ns, streamPath)
	require.NoError(t, err)
	require.Equal(t, last, tail)

	stale := eventlog.PathFence{Path: streamPath, Revision: revision - 1}
	for name, c := range map[string]eventlog.PathCommit{
		"one event behind a stale record":   {Events: eventsAt(streamPath, "c"), Fence: stale},
		"some events behind a stale record": {Events: eventsAt(streamPath, "c", "d"), Fence: stale},
		"events with a stale record":        {Events: eventsAt(streamPath, "c", "d"), Fence: stale, Puts: recordPut("two", stale.Revision)},
		"a stale record alone":              {Fence: stale, Puts: recordPut("two", stale.Revision)},
	} {
		_, err = commit(c)
		require.Equal(t, sluice.Conflict, sluice.CodeOf(err), name)
	}
	now := eventlog.PathFence{Path: streamPath, Revision: revision}
	_, err = commit(eventlog.PathCommit{Events: eventsAt(streamPath, "c"), Fence: now})
	require.NoError(t, err)
	_, err = commit(eventlog.PathCommit{Events: eventsAt(streamPath, "d", "e"), Fence: now})
	require.NoError(t, err)
	events, err := store.PathEvents(t.Context(), ns, streamPath, 0, 1<<60)
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b", "c", "d", "e"}, eventIDs(events))
	events, err = store.PathEvents(t.Context(), ns, streamPath, events[1].Seq, events[3].Seq)
	require.NoError(t, err)
	require.Equal(t, []string{"c", "d"}, eventIDs(events))
	page, err := store.Events(t.Context(), ns, model.EventQuery{})
	require.NoError(t, err)
	require.Len(t, page.Events, 5, "a record is no event")
	_, _, err = store.PathRecord(t.Context(), "nowhere", streamPath)
	requireCode(t, sluice.NotFound, err)
}

func TestRecord_ConcurrentWritersSeeEachOther(t *testing.T) {
	t.Parallel()
	store, server := provisioned(t)
	countTogether(t, store, connected(t, natsstore.Options{Conn: server}))
}

func TestRecord_ConcurrentWritersOnAClusterSeeEachOther(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("a cluster")
	}
	cluster := natstest.NewCluster(t)
	one := connected(t, natsstore.Options{URL: cluster.URL(), Replicas: 3})
	require.NoError(t, one.core.Provision(t.Context()))
	countTogether(t, one, connected(t, natsstore.Options{URL: cluster.URL(), Replicas: 3}))
}

// countTogether has several writers store an event and count it in the record, in one step.
func countTogether(t *testing.T, stores ...rooms) {
	t.Helper()
	const writers, each = 4, 10
	var all sync.WaitGroup
	failed := make(chan error, writers*each)
	for w := range writers {
		store := stores[w%len(stores)]
		all.Go(func() {
			for i := range each {
				if err := count(t.Context(), store, strconv.Itoa(w)+"-"+strconv.Itoa(i)); err != nil {
					failed <- err
				}
			}
		})
	}
	all.Wait()
	close(failed)
	for err := range failed {
		require.NoError(t, err)
	}
	data, _, err := stores[0].PathRecord(t.Context(), ns, streamPath)
	require.NoError(t, err)
	require.Equal(t, strconv.Itoa(writers*each), string(data))
	events, err := stores[0].PathEvents(t.Context(), ns, streamPath, 0, 1<<60)
	require.NoError(t, err)
	require.Len(t, events, writers*each)
}

func count(ctx context.Context, store rooms, id string) error {
	for {
		data, revision, err := store.PathRecord(ctx, ns, streamPath)
		if err != nil {
			return err
		}
		n, _ := strconv.Atoi(string(data)) // nothing yet is 0
		_, err = store.CommitPaths(ctx, ns, eventlog.PathCommit{
			Events: eventsAt(streamPath, id), Fence: eventlog.PathFence{Path: streamPath, Revision: revision},
			Puts: recordPut(strconv.Itoa(n+1), revision),
		})
		if sluice.CodeOf(err) != sluice.Conflict {
			return err
		}
	}
}

// What is kept of a stream outlives its events, and what is kept of one that was deleted does not bring back
// what was before.
func TestRecord_OutlivesItsEventsAndEndsWithItsStream(t *testing.T) {
	t.Parallel()
	store, server := provisioned(t)
	_, _, err := store.core.Namespaces().Put(t.Context(), sluice.Namespace{Name: "short", Retention: sluice.Retention{MaxAge: sluice.Duration(time.Second)}})
	require.NoError(t, err)
	put := func(path sluice.Path, data string, how time.Duration) {
		_, revision, err := store.PathRecord(t.Context(), "short", path)
		require.NoError(t, err)
		fence := eventlog.PathFence{Path: path, Revision: revision}
		_, err = store.CommitPaths(t.Context(), "short", eventlog.PathCommit{
			Events: eventsAt(path, data+string(path)), Fence: fence, Puts: []eventlog.PathPut{{PathFence: fence, Data: []byte(data), For: how}},
		})
		require.NoError(t, err)
	}
	put("/kept", "kept", eventlog.RecordForever)
	put("/gone", "first", eventlog.RecordForever)
	put("/gone", "second", eventlog.RecordForever)
	put("/gone", "deleted", eventlog.RecordAsEvents)
	put("/brief", "brief", time.Second)
	stream, err := natstest.JetStream(t, server).Stream(t.Context(), "EVENTS_short")
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		info, err := stream.Info(t.Context())
		return err == nil && info.State.Msgs == 1
	}, time.Minute, 50*time.Millisecond, "one record is left")
	for path, want := range map[sluice.Path]string{"/kept": "kept", "/gone": "", "/brief": ""} {
		data, _, err := store.PathRecord(t.Context(), "short", path)
		require.NoError(t, err)
		require.Equal(t, want, string(data), path)
	}
}

// ear is what a listener was told: one text for each call, "?" for one without news.
type ear chan string

func (e ear) hear(all []eventlog.PathNews) {
	if len(all) == 0 {
		e <- "?"
		return
	}
	var told []string
	for _, n := range all {
		if n.Event == nil {
			told = append(told, "record "+string(n.Record))
			continue
		}
		ev, err := n.Event()
		told = append(told, fmt.Sprintf("%d=%d %s %v", n.Seq, ev.Seq, ev.Data, err))
	}
	e <- strings.Join(told, ", ")
}

// listen listens on a path of the test.
func listen(t *testing.T, store rooms, path sluice.Path) ear {
	t.Helper()
	e := make(ear, 100)
	stop, err := store.ListenPath(t.Context(), ns, path, e.hear)
	require.NoError(t, err)
	t.Cleanup(stop)
	return e
}

func TestListen_ReportsMessagesOfItsPath(t *testing.T) {
	t.Parallel()
	store, server := provisioned(t)
	here, also := listen(t, store, streamPath), listen(t, store, streamPath)
	elsewhere := listen(t, store, "/other")
	_, err := natstest.JetStream(t, server).Publish(t.Context(), "events.default.v1.a=20b", []byte("of a publisher"))
	require.NoError(t, err)
	_, err = store.CommitPaths(t.Context(), ns, eventlog.PathCommit{Fence: eventlog.PathFence{Path: streamPath}, Puts: recordPut("x", 0)})
	require.NoError(t, err)
	_, err = natstest.JetStream(t, server).Publish(t.Context(), "events.default.other", []byte("elsewhere"))
	require.NoError(t, err)
	for _, e := range []ear{here, also} {
		require.Equal(t, "1=1 of a publisher <nil>", <-e)
		require.Equal(t, "record x", <-e)
		require.Empty(t, e)
	}
	require.Equal(t, "3=3 elsewhere <nil>", <-elsewhere)
	require.Empty(t, elsewhere)
	_, err = store.ListenPath(t.Context(), "nowhere", streamPath, here.hear)
	requireCode(t, sluice.Unavailable, err)
}

// What is stored in one step is told in one call, of each path; and what comes after it is not held up.
func TestListen_TellsOfABatchAsAWhole(t *testing.T) {
	t.Parallel()
	store, _ := provisioned(t)
	here, elsewhere := listen(t, store, streamPath), listen(t, store, "/other")
	event := func(path sluice.Path, data string) sluice.Event {
		return sluice.Event{Namespace: ns, Path: path, ID: data, Type: "t", Source: "/x", Data: []byte(data)}
	}
	_, err := store.CommitPaths(t.Context(), ns, eventlog.PathCommit{
		Events: []sluice.Event{event(streamPath, "a"), event("/other", "b"), event(streamPath, "c"), event("/unheard", "d")},
		Fence:  eventlog.PathFence{Path: streamPath}, Puts: recordPut("closed", 0),
	})
	require.NoError(t, err)
	require.Equal(t, "1=1 a <nil>, 3=3 c <nil>, record closed", <-here)
	require.Equal(t, "2=2 b <nil>", <-elsewhere)
	_, err = store.Publish(t.Context(), ns, []sluice.Event{event(streamPath, "e")})
	require.NoError(t, err)
	require.Equal(t, "6=6 e <nil>", <-here)
	require.Empty(t, here)
}

// After trouble with the log a listener is told that it may have missed something, once it is told of all again.
func TestListen_SaysThatSomethingMayBeMissed(t *testing.T) {
	t.Parallel()
	store, server := provisioned(t)
	here := listen(t, store, streamPath)
	require.Empty(t, here, "before the first message it missed nothing")
	_, err := natstest.JetStream(t, server).Publish(t.Context(), "events.default.v1.a=20b", []byte("first"))
	require.NoError(t, err)
	require.Equal(t, "1=1 first <nil>", <-here, "the log is read")
	server.Restart(t)
	require.Equal(t, "?", <-here, "the log failed")
	require.Equal(t, "?", <-here, "it is read again")
	got := "?"
	for got == "?" { // it may be read once more: the handler of the reconnection is late
		_, err = natstest.JetStream(t, server).Publish(t.Context(), "events.default.v1.a=20b", []byte("later"))
		require.NoError(t, err)
		got = <-here
	}
	require.Regexp(t, `^\d=\d later <nil>$`, got)
}
