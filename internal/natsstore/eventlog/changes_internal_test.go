package eventlog

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

const logName = sluice.DefaultNamespace

// tenEvents returns logs of which the default one has ten events, at sequences 1 to 10, and that one's stream.
func tenEvents(t *testing.T) (*Log, jetstream.Stream) {
	t.Helper()
	core, err := natsstore.Connect(t.Context(), natsstore.Options{Conn: natstest.New(t)})
	require.NoError(t, err)
	t.Cleanup(core.Close)
	l := New(t.Context(), core)
	require.NoError(t, core.Provision(t.Context()))
	for n := range 10 {
		_, err := l.Publish(t.Context(), logName, []sluice.Event{{ID: strconv.Itoa(n + 1), Path: sluice.Path(fmt.Sprint("/", n%2))}})
		require.NoError(t, err)
	}
	stream, err := core.JetStream().Stream(t.Context(), streams.Names{}.EventsStream(logName))
	require.NoError(t, err)
	return l, stream
}

// S3-40: a page that retention overtook has no hole that its first sequence does not tell of: it ends before the hole, or is read
// again.
func TestChangeReader_EndsWhereRetentionOvertookIt(t *testing.T) {
	t.Parallel()
	l, stream := tenEvents(t)
	begun := func(since uint64) *changeReader {
		info, err := l.core.EventsInfo(t.Context(), logName)
		require.NoError(t, err)
		return l.newChangeReader(logName, model.ChangeQuery{Since: since}, info)
	}
	settled := func(r *changeReader) bool {
		require.NoError(t, r.read(t.Context()))
		info, err := l.core.EventsInfo(t.Context(), logName)
		require.NoError(t, err)
		return r.settle(info)
	}
	inside, before, at := begun(1), begun(0), begun(5)
	require.NoError(t, stream.DeleteMsg(t.Context(), 4))
	whole := begun(1)
	require.True(t, settled(whole), "a hole that retention did not make is none")
	require.Len(t, whole.page.Items, 8)

	inside.page.Items = append(inside.page.Items, sluice.Change{Event: sluice.Event{Seq: 2}}, sluice.Change{Event: sluice.Event{Seq: 3}})
	inside.page.ThroughSeq = 3 // so far it had come
	require.NoError(t, stream.Purge(t.Context(), jetstream.WithPurgeSequence(8)))
	require.True(t, settled(inside))
	require.Len(t, inside.page.Items, 2)
	require.Equal(t, []any{uint64(3), true, uint64(1)}, []any{inside.page.ThroughSeq, inside.page.HasMore, inside.page.FirstSeq})
	require.False(t, settled(before), "nothing of it is certain")
	require.False(t, settled(at))
	page, err := l.Changes(t.Context(), logName, model.ChangeQuery{Since: 5})
	require.NoError(t, err)
	require.Equal(t, uint64(8), page.FirstSeq)
	require.Len(t, page.Items, 3)
}

// S3-40: a log that is made again while a page is read is another one.
func TestChangeReader_NoticesAnotherLog(t *testing.T) {
	t.Parallel()
	l, _ := tenEvents(t)
	info, err := l.core.EventsInfo(t.Context(), logName)
	require.NoError(t, err)
	r := l.newChangeReader(logName, model.ChangeQuery{}, info)
	require.NoError(t, r.read(t.Context()))
	require.NoError(t, l.core.JetStream().DeleteStream(t.Context(), streams.Names{}.EventsStream(logName)))
	require.NoError(t, l.core.Remake(t.Context(), streams.Names{}.EventsStream(logName), 10))
	info, err = l.core.EventsInfo(t.Context(), logName)
	require.NoError(t, err)
	require.False(t, r.settle(info))
}

// S3-57: a server that ends between the records and the deletion leaves work that is done again, and says the same.
func TestErasePath_GoesOnAfterACrash(t *testing.T) {
	t.Parallel()
	l, _ := tenEvents(t)
	events, err := l.PathEvents(t.Context(), logName, "/0", 0, 10)
	require.NoError(t, err)
	require.Len(t, events, 5)
	require.NoError(t, l.storeErased(t.Context(), logName, events[:3])) // and it ends here
	require.NoError(t, l.ErasePath(t.Context(), logName, "/0", 10))
	page, err := l.Changes(t.Context(), logName, model.ChangeQuery{})
	require.NoError(t, err)
	gone := map[string]int{}
	for _, c := range page.Items {
		if c.Op == sluice.OpDelete {
			gone[c.Event.ID]++
		}
	}
	require.Equal(t, map[string]int{"1": 2, "3": 2, "5": 2, "7": 1, "9": 1}, gone)
}

// S3-48: where the answering replica has nothing more, the leader is asked: a page does not pass over events that a replica that
// lags behind has not got yet, and passes over those that are gone.
func TestChangeReader_AsksTheLeaderAtTheEnd(t *testing.T) {
	t.Parallel()
	l, stream := tenEvents(t)
	require.NoError(t, stream.DeleteMsg(t.Context(), 9))
	require.NoError(t, stream.DeleteMsg(t.Context(), 10))
	info, err := l.core.EventsInfo(t.Context(), logName)
	require.NoError(t, err)
	r := l.newChangeReader(logName, model.ChangeQuery{}, info)
	r.page.ThroughSeq = 7 // as far as the replica has come
	require.ErrorIs(t, r.atEnd(t.Context()), natsstore.ErrBehind)
	require.Equal(t, uint64(7), r.page.ThroughSeq)
	r.page.ThroughSeq = 8
	require.NoError(t, r.atEnd(t.Context()))
	require.Equal(t, uint64(10), r.page.ThroughSeq)
}
