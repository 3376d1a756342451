package delivery

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/delivery/breaker"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// batching returns a table with batches of three, which wait a second.
func batching(now time.Time, stored ...time.Duration) *laneTable {
	b := newLaneTable(8)
	b.batch = sluice.Batch{Max: 3, Wait: sluice.Duration(time.Second)}
	for i, ago := range stored {
		d := deliveryAt(uint64(i + 1))
		d.Event.Stored = now.Add(-ago)
		b.arrive("s", d)
	}
	return b
}

func TestLaneTable_BatchWaitsFromTheStoringOn(t *testing.T) {
	t.Parallel()
	now := time.Now()
	b := batching(now, 300*time.Millisecond, 0)
	_, ok := b.next(now, breaker.All)
	require.False(t, ok)
	require.Equal(t, now.Add(700*time.Millisecond), b.wake())
	sent, ok := b.next(now.Add(700*time.Millisecond), breaker.All)
	require.True(t, ok)
	require.Equal(t, uint64(1), sent.head.Event.Seq)
	require.Equal(t, []uint64{2}, seqs(sent.more))
	require.Equal(t, []uint64{1, 2}, seqs(b.settled(sent.lane, 1)))
	require.True(t, b.empty())
	require.True(t, b.wake().IsZero())
}

func TestLaneTable_FullBatchWaitsForNothing(t *testing.T) {
	t.Parallel()
	now := time.Now()
	b := batching(now, 0, 0, 0, 0)
	sent, ok := b.next(now, breaker.All)
	require.True(t, ok)
	require.Equal(t, []uint64{2, 3}, seqs(sent.more))
	b.settled(sent.lane, 2)
	_, ok = b.next(now, breaker.All)
	require.False(t, ok, "the fourth waits for more")
	require.Equal(t, now.Add(time.Second), b.wake())
}

// The clocks of the log and of the server may differ.
func TestLaneTable_BatchNeverWaitsLonger(t *testing.T) {
	t.Parallel()
	now := time.Now()
	b := batching(now, -time.Hour)
	require.False(t, b.canSend(now, breaker.All))
	require.Equal(t, now.Add(time.Second), b.wake())
	require.True(t, b.canSend(now.Add(time.Second), breaker.All))
}

func TestLaneTable_UnsendableEventEndsABatch(t *testing.T) {
	t.Parallel()
	now := time.Now()
	b := batching(now, time.Minute)
	odd := deliveryAt(2)
	odd.Err = sluice.Errorf(sluice.InvalidRequest, "unreadable")
	b.arrive("s", odd)
	b.arrive("s", deliveryAt(3))
	sent, ok := b.next(now, breaker.All)
	require.True(t, ok)
	require.Empty(t, sent.more)
	b.settled(sent.lane, 0)
	sent, ok = b.next(now, breaker.All)
	require.True(t, ok)
	require.Equal(t, odd, sent.head)
	require.Empty(t, sent.more)
}

func TestLaneTable_BatchIsBoundedInBytes(t *testing.T) {
	t.Parallel()
	b := newLaneTable(8)
	b.batch.Max = 100
	for seq := range uint64(4) {
		d := deliveryAt(seq + 1)
		d.Event.Data = make([]byte, batchBytes/2-1024)
		b.arrive("s", d)
	}
	sent, ok := b.next(time.Now(), breaker.All)
	require.True(t, ok)
	require.Equal(t, []uint64{2}, seqs(sent.more))
}
