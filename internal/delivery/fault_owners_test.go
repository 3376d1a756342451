package delivery_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/testkit/faulttest"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Two replicas both believe that a subscription is theirs, for as long as they like. Nothing is lost, deliveries go on, a
// lane's record has one writer at a time, and they come to rest. Sent twice is at most a window for each time that one took
// the consumer from the other. Order is not promised meanwhile.
func TestTwoOwners_LoseNothing(t *testing.T) { // S4-17, S4-22, C01
	withConsumers(t)
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
	var status sluice.Status
	settled := func() bool {
		var err error
		status, err = w.deliveries.Status(t.Context(), w.sub)
		return err == nil && w.endpoint.delivered() == w.total && status.Parked == 0 && status.Backlog == 0
	}
	require.True(t, within(60*time.Second, settled), "while there are two: %d of %d, %+v", w.endpoint.delivered(), w.total, status)
	both := time.Since(began)
	idle := 2 * time.Second
	if faulttest.Long() {
		idle = 20 * time.Second
	}
	attempts := 1
	for n := 0; attempts > 0 && n < 5; n++ { // one may repeat what it had when the other settled it
		before := w.endpoint.attempts()
		watch.Wait(idle)
		attempts = w.endpoint.attempts() - before
	}
	one.stop()
	watch.Recovered()
	w.publish(t, "/a/1", "last")
	w.total++
	require.True(t, within(40*time.Second, func() bool { return w.endpoint.delivered() == w.total }))
	resumed := watch.Resumed()
	require.True(t, within(60*time.Second, settled))
	a := w.compare(sluice.OrderNone) // one may send the next event of a lane while the other is about to write the lane's record again
	t.Logf("%+v after %s with both, %d starts, %d attempts while there was nothing to do, alone after %s", a, both, logged.starts.Load(), attempts, resumed)
	require.Zero(t, attempts, "attempts when all has arrived")
	require.NotZero(t, logged.starts.Load(), "they get into each other's way")
	require.LessOrEqual(t, a.Twice, int(logged.starts.Load())*w.sub.Policy.Window, "what was under way whenever one lost the consumer to the other")
	watch.End(a, fmt.Sprintf("all arrive while there are two, which may break the order; they took the consumer from each other %d times", logged.starts.Load()))
}

// A second owner deletes a lane's record when it has sent what it knew of, and may park the lane anew at a later event. What
// the first acknowledged later, because its record held it, is sent after all.
func TestTwoOwners_DeletedLaneIsWrittenAgain(t *testing.T) { // C01
	t.Parallel()
	for name, anew := range map[string]uint64{"deleted": 0, "parked anew": 3} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testDeletedLane(t, anew)
		})
	}
}

func testDeletedLane(t *testing.T, anew uint64) { // the sequence at which it is parked anew; 0: it is not
	t.Helper()
	w := newWorld(t, connect(t), "n", sluice.Policy{Window: 4, Retry: quickRetries})
	w.endpoint.failing("e1", 2)
	second, goOn := make(chan struct{}), make(chan struct{})
	tries := 0
	w.endpoint.wait = func() {
		if tries++; tries == 2 { // before there is a third, this one goes on
			close(second)
			<-goOn
		}
	}
	one := w.start(t)
	defer one.stop()
	publish := func(id string) {
		w.publish(t, "/a/x", id)
		w.total++
	}
	publish("e1")
	<-second
	parked, err := w.deliveries.Parked(t.Context(), w.sub)
	require.NoError(t, err)
	require.Len(t, parked, 1)
	require.NoError(t, w.deliveries.Unpark(t.Context(), parked[0].Lane, parked[0].Revision))
	publish("e2")
	if anew != 0 {
		publish("e3")
		later := parked[0].Parked
		later.FromSeq, later.EventID = anew, "e3"
		_, err := w.deliveries.Park(t.Context(), w.sub, later, 0)
		require.NoError(t, err)
	}
	status := func() sluice.Status {
		status, err := w.deliveries.Status(t.Context(), w.sub)
		require.NoError(t, err)
		return status
	}
	require.True(t, within(2*time.Minute, func() bool { return status().AckFloor == max(2, anew) }))
	close(goOn)
	require.True(t, within(2*time.Minute, func() bool { return w.endpoint.delivered() == w.total }), "%d of %d", w.endpoint.delivered(), w.total)
	require.True(t, within(2*time.Minute, func() bool { return status().Parked == 0 }))
}
