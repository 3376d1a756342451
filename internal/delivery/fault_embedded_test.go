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

// Issue 3, "Faults": the server is in the same process, and away for a while. What was on its
// way is recorded later, nothing is sent again, and it is not asked for all the time.
func TestEmbedded_OutageRepeatsNothing(t *testing.T) { // S4-17, S4-22, C01
	t.Parallel()
	server := natstest.New(t)
	w := newWorld(t, connectTo(t, server), "n", sluice.Policy{Window: 4, Retry: quickRetries})
	log, logged := counted(t)
	w.log = log
	publish := func(n int) {
		for range n {
			w.endpoint.failing(fmt.Sprint("e", w.total), w.total%2)
			w.publish(t, sluice.Path(fmt.Sprintf("/a/%d", w.total%3)), fmt.Sprint("e", w.total))
			w.total++
		}
	}
	proc := w.start(t)
	defer proc.stop()
	publish(30)
	require.True(t, within(patience, func() bool { return w.endpoint.delivered() > 15 }))
	watch := faulttest.Begin(t, "nats-away-embedded")
	server.Stop(t) // in the middle
	away := 2 * time.Second
	if faulttest.Long() {
		away = time.Minute
	}
	within(500*time.Millisecond, func() bool { return false }) // what can be done is done
	attempts, warnings := w.endpoint.attempts(), logged.warnings.Load()
	watch.Wait(away)
	attempts, warnings = w.endpoint.attempts()-attempts, logged.warnings.Load()-warnings
	server.Start(t)
	watch.Recovered()
	before := w.endpoint.delivered()
	publish(30)
	require.True(t, within(2*time.Minute, func() bool { return w.endpoint.delivered() > before }))
	resumed := watch.Resumed()
	require.True(t, within(2*time.Minute, func() bool { return w.endpoint.delivered() == w.total && parked(t, w) == 0 && inFlight(t, w) == 0 }))
	a := w.compare(sluice.OrderByPath)
	t.Logf("%+v, resumed after %s; while it was away %d attempts, %d warnings", a, resumed, attempts, warnings)
	require.LessOrEqual(t, attempts, w.sub.Policy.Window)
	require.Zero(t, a.Twice)
	require.LessOrEqual(t, warnings, 5*int64(away/time.Second+1))
	watch.End(a, fmt.Sprintf("while it was away: %d attempts, %d warnings", attempts, warnings))
}
