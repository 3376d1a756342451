package delivery

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/delivery/breaker"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// debouncing returns a table with a lane that was parked at its first event.
func debouncing(t *testing.T, now time.Time, debounce sluice.Debounce) *laneTable {
	t.Helper()
	b := newLaneTable(8)
	b.debounce = debounce
	arriveAt(b, 1, now)
	spill, ok := b.next(now, breaker.All)
	require.True(t, ok)
	require.Equal(t, taskSpill, spill.kind)
	entry := model.ParkedEntry{Parked: sluice.Parked{Lane: "a", FromSeq: 1, EventID: "e", NextAt: now.Add(debounce.Quiet.Std())}}
	require.Equal(t, []uint64{1}, seqs(b.stored(spill.lane, entry, now)))
	return b
}

// arriveAt lets an event arrive that was stored at a time.
func arriveAt(b *laneTable, seq uint64, stored time.Time) (ack bool) {
	d := deliveryAt(seq)
	d.Event.Stored = stored
	return b.arrive("a", d)
}

func TestLaneTable_DebounceWaitsForQuiet(t *testing.T) {
	t.Parallel()
	now := time.Now()
	b := debouncing(t, now, sluice.Debounce{Quiet: sluice.Duration(10 * time.Second)})
	require.Equal(t, 1, b.quiet)
	require.True(t, arriveAt(b, 2, now.Add(6*time.Second)), "it waits in the log")
	require.False(t, b.canSend(now.Add(10*time.Second), breaker.All))
	require.Equal(t, now.Add(16*time.Second), b.wake())
	sent, ok := b.next(now.Add(16*time.Second), breaker.All)
	require.True(t, ok)
	require.Equal(t, taskResume, sent.kind)
	require.Equal(t, uint64(2), sent.park.upTo)

	require.True(t, arriveAt(b, 3, now.Add(20*time.Second)), "while it is sent")
	p := sent.park
	p.moveTo(3)
	b.resumed(sent.lane, p)
	require.False(t, b.canSend(now.Add(20*time.Second), breaker.All), "it waits anew")
	require.Equal(t, now.Add(30*time.Second), b.wake())
	require.True(t, b.canSend(now.Add(30*time.Second), breaker.All))
}

// A message that cannot be sent supersedes nothing, so nothing waits for it.
func TestLaneTable_DebounceIgnoresTheUnsendable(t *testing.T) {
	t.Parallel()
	now := time.Now()
	b := debouncing(t, now, sluice.Debounce{Quiet: sluice.Duration(10 * time.Second)})
	d := deliveryAt(2)
	d.Err, d.Event.Stored = sluice.Errorf(sluice.InvalidRequest, "no CloudEvent"), now.Add(6*time.Second)
	require.True(t, b.arrive("a", d))
	sent, ok := b.next(now.Add(10*time.Second), breaker.All)
	require.True(t, ok)
	require.Equal(t, uint64(2), sent.park.upTo)
}

func TestLaneTable_DebounceEndsAfterTheLongestTime(t *testing.T) {
	t.Parallel()
	now := time.Now()
	b := debouncing(t, now, sluice.Debounce{Quiet: sluice.Duration(10 * time.Second), Max: sluice.Duration(25 * time.Second)})
	for s := range 24 {
		arriveAt(b, uint64(s+2), now.Add(time.Duration(s)*time.Second))
		require.False(t, b.canSend(now.Add(time.Duration(s)*time.Second), breaker.All), s)
	}
	require.Equal(t, now.Add(25*time.Second), func() time.Time { b.canSend(now.Add(24*time.Second), breaker.All); return b.wake() }())
	require.True(t, b.canSend(now.Add(25*time.Second), breaker.All))
}

// The clocks of the log and of the server may differ; and what is asked for is done at once.
func TestLaneTable_DebounceIsEndedByAnAct(t *testing.T) {
	t.Parallel()
	now := time.Now()
	b := debouncing(t, now, sluice.Debounce{Quiet: sluice.Duration(10 * time.Second)})
	arriveAt(b, 2, now.Add(time.Hour))
	require.False(t, b.canSend(now.Add(10*time.Second), breaker.All))
	require.Equal(t, now.Add(20*time.Second), b.wake(), "from now on, and no hour")
	b.act(newAct(sluice.ReplayRetry, 1), now)
	require.True(t, b.canSend(now, breaker.All))
	require.Zero(t, b.quiet)
}

// A retry has its own time.
func TestLaneTable_DebounceLeavesRetriesAlone(t *testing.T) {
	t.Parallel()
	now := time.Now()
	b := debouncing(t, now, sluice.Debounce{Quiet: sluice.Duration(10 * time.Second)})
	sent, ok := b.next(now.Add(10*time.Second), breaker.All)
	require.True(t, ok)
	p := sent.park
	p.Attempts, p.NextAt = 1, now.Add(time.Minute)
	b.resumed(sent.lane, p)
	require.Zero(t, b.quiet)
	arriveAt(b, 2, now.Add(59*time.Second))
	require.True(t, b.canSend(now.Add(time.Minute), breaker.All))
}

// What waits is bounded: the paths beyond are sent at once.
func TestLaneTable_DebounceBoundsWaitingLanes(t *testing.T) {
	t.Parallel()
	now := time.Now()
	b := debouncing(t, now, sluice.Debounce{Quiet: sluice.Duration(10 * time.Second)})
	b.quiet = mostQuietLanes
	b.arrive("other", deliveryAt(2))
	sent, ok := b.next(now, breaker.All)
	require.True(t, ok)
	require.Equal(t, taskSend, sent.kind)
}
