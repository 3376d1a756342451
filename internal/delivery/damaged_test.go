package delivery_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/natsd"
	"github.com/sluice-io/sluice/internal/testkit/faulttest"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Issue 13, F6: the files of a subscription's consumers are torn while the server is stopped. The consumers are made
// again where everything was settled or parked.
func TestConsumer_TornFileLosesNothing(t *testing.T) { // S0-41, C01
	withConsumers(t)
	t.Parallel()
	dir := t.TempDir()
	server := natstest.NewWith(t, natsd.Options{StoreDir: dir, DontListen: true})
	w := newWorld(t, connectTo(t, server), "n", sluice.Policy{Window: 4, Retry: steps(time.Hour, 3)})
	publish := func(n int) {
		for range n {
			w.publish(t, sluice.Path(fmt.Sprintf("/a/%d", w.total%3)), fmt.Sprint("e", w.total))
			w.total++
		}
	}
	proc := w.start(t)
	publish(20)
	require.Eventually(t, func() bool { return w.endpoint.delivered() == w.total && inFlight(t, w) == 0 }, time.Minute, time.Millisecond)
	w.endpoint.failing("later", 1)
	w.publish(t, "/a/parked", "later")
	w.total++
	require.Eventually(t, func() bool { return parked(t, w) == 1 && inFlight(t, w) == 0 }, time.Minute, time.Millisecond)
	proc.stop()
	publish(20) // no replica serves it

	watch := faulttest.Begin(t, "consumer-torn")
	server.Stop(t)
	states, err := filepath.Glob(filepath.Join(dir, "jetstream", "*", "streams", "EVENTS_n", "obs", "*", "o.dat"))
	require.NoError(t, err)
	require.NotEmpty(t, states)
	for _, file := range states {
		require.NoError(t, os.WriteFile(file, []byte{22, 2, 7}, 0o600))
	}
	server.Start(t)
	watch.Recovered()
	require.Eventually(t, func() bool { return parked(t, w) == 1 }, time.Minute, time.Millisecond, "NATS is back")
	dueNow(t, w)
	before := w.endpoint.delivered()
	proc = w.start(t)
	defer proc.stop()
	require.Eventually(t, func() bool { return w.endpoint.delivered() > before }, time.Minute, time.Millisecond)
	watch.Resumed()
	publish(20)
	require.Eventually(t, func() bool { return w.endpoint.delivered() == w.total }, time.Minute, time.Millisecond, "all arrive")
	a := w.compare(sluice.OrderByPath)
	require.LessOrEqual(t, a.Twice, 2*w.sub.Policy.Window, "the window of each of the two consumers")
	watch.End(a, fmt.Sprintf("%d consumers were made again", len(states)))
}

// Issue 13, F6: while the events of a subscription cannot be read, its status and the metrics say so and why.
func TestStatus_SaysThatTheSourceCannotBeOpened(t *testing.T) { // S4-17
	withConsumers(t)
	t.Parallel()
	w, operate := newLookoutWorld(t, sluice.Policy{Window: 8, Retry: quickRetries})
	require.NoError(t, w.deliveries.RemoveConsumers(t.Context(), w.sub))
	operate.limit(w.sub.Namespace, 4) // NATS refuses the window
	proc := w.start(t)
	defer proc.stop()
	require.Eventually(t, func() bool { return w.status(t).SourceError != "" }, time.Minute, time.Millisecond)
	require.Contains(t, w.status(t).SourceError, "max_ack_pending")
	require.True(t, proc.engine.Gauges()[0].Unopened)

	operate.limit(w.sub.Namespace, 0)
	w.publish(t, "/a/1", "e")
	require.Eventually(t, func() bool { return w.endpoint.delivered() == 1 && w.status(t).SourceError == "" }, time.Minute, time.Millisecond)
	require.False(t, proc.engine.Gauges()[0].Unopened)
}
