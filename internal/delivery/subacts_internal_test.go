package delivery

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/delivery/breaker"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// parkedMany parks lanes p0, p1, … that are due an hour later, the first of them held.
func (d *dispatcher) parkedMany(n int, now time.Time) {
	for i := range n {
		p := sluice.Parked{Lane: fmt.Sprint("p", i), FromSeq: uint64(i + 1), EventID: fmt.Sprint("e", i), NextAt: now.Add(time.Hour)}
		if i == 0 {
			p.Held, p.NextAt = sluice.Exhausted, time.Time{}
		}
		d.lanes.load(model.ParkedEntry{Parked: p}, uint64(i+1), now)
	}
}

// An operator's probe does not wait for the breaker's pause, a Retry-After, or an event that is due.
func TestDispatcher_ProbesWhenAsked(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	d := newDispatcher()
	d.parkedMany(3, now)
	a := newAct(sluice.ReplayProbe, 0)
	d.apply(a, now)
	require.Equal(t, actedNothing, <-a.done, "the breaker is closed")
	d.breaker = breaker.Opened(now.Add(time.Minute), 0).Hold(now.Add(time.Hour))
	p := d.decide(now)
	require.Empty(t, p.tasks)
	d.apply(a, now)
	require.Equal(t, actedDone, <-a.done)
	p = d.decide(now)
	require.Equal(t, "probe carefully p1", p.text(now), "one event that was not due yet")
}

// All parked lanes are retried at once; held ones first have to be released.
func TestDispatcher_RetriesAllLanes(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	d := newDispatcher()
	d.lanes.window = 8
	d.parkedMany(3, now)
	a := newAct(sluice.ReplayLanes, 0)
	require.False(t, d.apply(a, now))
	require.Equal(t, actedDone, <-a.done)
	require.Len(t, a.more, 1)
	p := d.decide(now)
	require.Equal(t, "release p0, resume p1, resume p2", p.text(now))
	d.lanes.abandon()
	require.Equal(t, actedLater, a.settled(t.Context(), actedDone), "the held lane's record was not stored")
}

// A success beside the deliveries heals an open breaker as a probe does, and no other.
func TestBreaker_TakesASuccessAsProbe(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	d := newDispatcher()
	d.breaker = breaker.Opened(now.Add(time.Minute), 0).Hold(now.Add(time.Minute))
	require.True(t, d.apply(newAct(sluice.ReplayProved, 0), now))
	require.Equal(t, sluice.BreakerHalfOpen, d.breaker.State())
	may, _ := d.breaker.Admits(now)
	require.Equal(t, breaker.All, may)
	was := d.breaker
	require.False(t, d.apply(newAct(sluice.ReplayProved, 0), now))
	require.Equal(t, was, d.breaker)
}
