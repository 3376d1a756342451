package delivery_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/delivery"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// numbered is a sender that notes the number of every attempt, as webhook-attempt tells it.
type numbered struct {
	delivery.Sender

	mu      sync.Mutex
	numbers []int
}

func (n *numbered) Send(ctx context.Context, sub *sluice.Subscription, ev *sluice.Event, number int, more ...*sluice.Event) sluice.Attempt {
	n.mu.Lock()
	n.numbers = append(n.numbers, number)
	n.mu.Unlock()
	return n.Sender.Send(ctx, sub, ev, number, more...)
}

func (n *numbered) all() []int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.numbers)
}

// countingWorld has one event that always fails, and counts the attempts.
func countingWorld(t *testing.T, wait time.Duration, most int) (*world, *numbered) {
	t.Helper()
	w := newWorld(t, connect(t), "n", sluice.Policy{Retry: steps(wait, most)})
	w.endpoint.fails["e"] = 1000
	n := &numbered{Sender: w.endpoint}
	w.ports = func(p *delivery.Deps) { p.Sender = n }
	w.publish(t, "/a/x", "e")
	return w, n
}

// recordFailed stores failed attempts as a process does that died right behind them.
func (w *world) recordFailed(t *testing.T, numbers ...int) {
	t.Helper()
	log, err := w.deliveries.AttemptLog()
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = log.Run(ctx) })
	for _, number := range numbers {
		now := time.Now()
		done := make(chan error, 1)
		log.Record(&sluice.Attempt{
			Subscription: w.sub.ID, EventID: "e", Seq: 1, Path: "/a/x", Type: "t", Number: number, StartedAt: now, FirstFailedAt: now,
			Outcome: sluice.Failed, Status: 503, Error: "503", Verdict: sluice.Verdict{Again: now.Add(time.Millisecond)},
		}, w.sub.Namespace, func(err error) { done <- err })
		require.NoError(t, <-done)
	}
	cancel()
	running.Wait()
}

// A process that died between an attempt and the record of its lane leaves the attempt in the log. The next one counts on
// from there: no number is told twice, and no more attempts are made than the policy has.
func TestAttempts_CountOnFromTheLog(t *testing.T) { // S0-41, C01
	t.Parallel()
	w, n := countingWorld(t, time.Millisecond, 4)
	w.recordFailed(t, 1, 2)
	p := w.start(t)
	defer p.stop()
	eventually(t, "it is dead", func() bool { return len(w.letters(t)) == 1 })
	require.Equal(t, []int{3, 4}, n.all())
	letter := w.letters(t)[0]
	require.Equal(t, []any{4, sluice.Exhausted}, []any{letter.Attempts, letter.Reason})
}

// The same for a lane that is parked already, whose record is behind the log.
func TestAttempts_OfAParkedLaneCountOnFromTheLog(t *testing.T) { // S0-41, C01
	t.Parallel()
	w, n := countingWorld(t, time.Hour, 4)
	p := w.start(t)
	eventually(t, "its lane is parked", func() bool { return parked(t, w) == 1 })
	p.stop()
	w.recordFailed(t, 2, 3)
	dueNow(t, w)
	p = w.start(t)
	defer p.stop()
	eventually(t, "it is dead", func() bool { return len(w.letters(t)) == 1 })
	require.Equal(t, []int{1, 4}, n.all())
	require.Equal(t, 4, w.letters(t)[0].Attempts)
}

// A record that is ahead of the log, whose last attempts a power cut took, counts too.
func TestAttempts_OfAParkedLaneCountFromItsRecord(t *testing.T) { // S0-41, C01
	t.Parallel()
	w, n := countingWorld(t, time.Hour, 4)
	p := w.start(t)
	eventually(t, "its lane is parked", func() bool { return parked(t, w) == 1 })
	p.stop()
	all, err := w.deliveries.Parked(t.Context(), w.sub)
	require.NoError(t, err)
	all[0].Attempts, all[0].NextAt = 3, time.Now()
	_, err = w.deliveries.Park(t.Context(), w.sub, all[0].Parked, all[0].Revision)
	require.NoError(t, err)
	p = w.start(t)
	defer p.stop()
	eventually(t, "it is dead", func() bool { return len(w.letters(t)) == 1 })
	require.Equal(t, []int{1, 4}, n.all())
}
