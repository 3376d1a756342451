package delivery

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/delivery/breaker"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

func TestBook_ProbesALiveHeadOrTheLongestDue(t *testing.T) { // issue 3, item 3
	t.Parallel()
	now := time.Now()
	b := newLaneTable(8)
	for i, key := range []string{"long", "short", "later"} {
		b.load(model.ParkedEntry{Parked: sluice.Parked{
			Lane: key, FromSeq: uint64(i + 1), Attempts: 1, NextAt: now.Add(time.Duration(i-2) * time.Minute),
		}}, 0, now.Add(-time.Hour))
	}
	b.arrive("live", deliveryAt(9))
	_, ok := b.next(now, breaker.None)
	require.False(t, ok)
	for _, want := range []string{"live", "long", "short", "later"} {
		probe, ok := b.next(now, breaker.Probe)
		require.True(t, ok)
		require.Equal(t, want, probe.lane.key)
		if probe.kind == taskResume {
			probe.park.NextAt = now
			b.resumed(probe.lane, probe.park)
		} else {
			defer b.unblock(probe.lane)
		}
	}
}

func TestBook_DeletesRecordsWhileSendingIsHeld(t *testing.T) {
	t.Parallel()
	now := time.Now()
	b := newLaneTable(8)
	b.load(model.ParkedEntry{Parked: sluice.Parked{Lane: "a", FromSeq: 5}}, 4, now)
	chore, ok := b.next(now, breaker.None)
	require.True(t, ok)
	require.Equal(t, taskUnpark, chore.kind)
}

func TestBudget_BothRatesHold(t *testing.T) { // issue 3, item 4
	t.Parallel()
	require.Empty(t, limitsOf(sluice.Rate{}))
	both := limitsOf(sluice.Rate{PerSecond: 100, PerMinute: 600})
	require.Len(t, both, 2)
	require.InDelta(t, 100, float64(both[0].Limit()), 1e-9)
	require.Equal(t, 2, both[0].Burst())
	require.InDelta(t, 10, float64(both[1].Limit()), 1e-9)
	require.Equal(t, 12, both[1].Burst())
	require.Equal(t, 1, limitsOf(sluice.Rate{PerMinute: 2})[0].Burst())
}
