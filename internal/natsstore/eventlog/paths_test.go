package eventlog_test

import (
	"context"
	"strconv"
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
	stream, err := raw(t, server).Stream(t.Context(), "EVENTS_short")
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		info, err := stream.Info(t.Context())
		return err == nil && info.State.Msgs == 1
	}, 20*time.Second, 50*time.Millisecond, "one record is left")
	for path, want := range map[sluice.Path]string{"/kept": "kept", "/gone": "", "/brief": ""} {
		data, _, err := store.PathRecord(t.Context(), "short", path)
		require.NoError(t, err)
		require.Equal(t, want, string(data), path)
	}
}

func TestListen_ReportsEventsOfItsPath(t *testing.T) {
	t.Parallel()
	store, server := provisioned(t)
	news, stop, err := store.ListenPath(t.Context(), ns, streamPath)
	require.NoError(t, err)
	defer stop()
	others, stopOthers, err := store.ListenPath(t.Context(), ns, "/other")
	require.NoError(t, err)
	defer stopOthers()
	told := func(from <-chan struct{}) func() bool {
		return func() bool {
			select {
			case <-from:
				return true
			default:
				return false
			}
		}
	}
	require.Eventually(t, told(news), 10*time.Second, time.Millisecond, "it has begun")
	for name, write := range map[string]func() error{
		"a NATS publisher's event": func() error {
			_, err := raw(t, server).Publish(t.Context(), "events.default.v1.a=20b", nil)
			return err
		},
		"a record": func() error {
			_, err := store.CommitPaths(t.Context(), ns, eventlog.PathCommit{Fence: eventlog.PathFence{Path: streamPath}, Puts: recordPut("x", 0)})
			return err
		},
	} {
		for told(news)() || told(others)() {
			t.Log("woken for no reason, which may be")
		}
		require.NoError(t, write())
		require.Eventually(t, told(news), 10*time.Second, time.Millisecond, name)
	}
	require.False(t, told(others)())
	_, _, err = store.ListenPath(t.Context(), "nowhere", streamPath)
	requireCode(t, sluice.Unavailable, err)
}
