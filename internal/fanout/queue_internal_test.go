package fanout

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// What is settled behind a delivery that hangs keeps no data, and those who hold the event still read it.
func TestQueue_SettledEntriesKeepNoData(t *testing.T) {
	t.Parallel()
	q := &queue{}
	for seq := range uint64(4) {
		q.add(&entry{Delivery: model.Delivery{Event: sluice.Event{Seq: seq + 1, Path: "/a", Data: make([]byte, overhead)}}})
	}
	behind := q.entries[2]
	require.True(t, q.settle(behind))
	require.False(t, q.settle(behind))
	require.Len(t, behind.Event.Data, overhead)
	require.Nil(t, q.entries[2].Event.Data)
	require.Equal(t, []any{uint64(3), sluice.Path("/a"), true}, []any{q.entries[2].Event.Seq, q.entries[2].Event.Path, q.entries[2].acked})
	require.Len(t, q.entries[1].Event.Data, overhead)
	require.True(t, q.settle(q.entries[0]))
	require.True(t, q.settle(q.entries[0]))
	require.Len(t, q.entries, 1)
	require.Equal(t, 1, q.unacked)
}

// A log that lost its end gives its sequences again, and the queue has the earlier events, too.
func TestQueue_SettledEntryReplacesNoOther(t *testing.T) {
	t.Parallel()
	q := &queue{}
	for _, seq := range []uint64{1, 2, 3, 4, 2, 3, 4, 5, 6} {
		q.add(&entry{Delivery: model.Delivery{Event: sluice.Event{Seq: seq, Path: "/a", Data: make([]byte, overhead)}}})
	}
	earlier := q.entries[3]
	require.True(t, q.settle(earlier))
	for i, e := range q.entries {
		require.Equal(t, i == 3, e.acked, i)
	}
}
