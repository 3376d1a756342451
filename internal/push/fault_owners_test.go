package push_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/faulttest"
	"github.com/sluice-io/sluice/internal/natstest"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Issue 3, "Faults": two replicas both believe that a subscription is theirs, for as long as
// they like. Nothing is lost, deliveries go on, a lane's record has one writer at a time, and what
// is sent twice is what was under way when they took the consumer from one another.
func TestTwoOwnersLoseNothing(t *testing.T) { // S4-17, S4-22, C01
	t.Parallel()
	server := natstest.New(t)
	w := newWorld(t, connectTo(t, server), "n", sluice.Policy{Window: 4, Retry: quickRetries})
	log, logged := counted(t)
	w.log = log
	w.endpoint.wait = func() { <-time.After(2 * time.Millisecond) }
	other := *w
	other.store, other.watch = connectTo(t, server), &one{sub: w.sub}

	watch := faulttest.Begin(t, "two-owners")
	began := time.Now()
	one, two := w.start(t), other.start(t)
	defer two.stop()
	rounds := 12
	if faulttest.Long() {
		rounds = 60
	}
	for range rounds {
		for i := range 10 {
			id := fmt.Sprint("e", w.total)
			w.total++
			if i == 3 {
				w.endpoint.failing(id, 2)
			}
			w.publish(t, sluice.Path(fmt.Sprintf("/a/%d", i%6)), id)
		}
		within(200*time.Millisecond, func() bool { return w.endpoint.delivered() == w.total })
	}
	settled := func() bool {
		status, err := w.store.Status(t.Context(), w.sub)
		return err == nil && w.endpoint.delivered() == w.total && status.Parked == 0 && status.Backlog == 0
	}
	require.True(t, within(60*time.Second, settled), "while there are two")
	both := time.Since(began)
	attempts := w.endpoint.attempts()
	idle := 2 * time.Second
	if faulttest.Long() {
		idle = 20 * time.Second
	}
	watch.Wait(idle)
	attempts = w.endpoint.attempts() - attempts
	one.stop()
	watch.Recovered()
	w.publish(t, "/a/1", "last")
	w.total++
	require.True(t, within(40*time.Second, func() bool { return w.endpoint.delivered() == w.total }))
	resumed := watch.Resumed()
	require.True(t, within(60*time.Second, settled))
	a := w.compare(sluice.OrderByPath)
	t.Logf("%+v after %s with both, %d starts, %d attempts while there was nothing to do, alone after %s", a, both, logged.starts.Load(), attempts, resumed)
	require.Zero(t, attempts, "attempts when all has arrived")
	require.NotZero(t, logged.starts.Load(), "they get into each other's way")
	require.LessOrEqual(t, a.Twice, int(logged.starts.Load())*w.sub.Policy.Window, "what was under way whenever one lost the consumer to the other")
	watch.End(a, fmt.Sprintf("all arrive while there are two; they took the consumer from each other %d times", logged.starts.Load()))
}
