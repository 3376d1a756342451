package delivery_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/testkit/faulttest"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Issue 3, "Faults" and its bar: the process dies while thousands of lanes are parked. They are
// one record each, the healthy ones beside them do not wait for them, and JetStream holds no
// more than the window for it.
func TestPark_ManyLanesSurviveARestart(t *testing.T) { // S4-17, S4-22, C01
	t.Parallel()
	lanes := 300
	if faulttest.Long() {
		lanes = 3000
	}
	server := natstest.New(t)
	w := newWorld(t, connectTo(t, server), "n", sluice.Policy{Window: 16, Retry: sluice.Retry{
		Preset: sluice.PresetCustom, Steps: []sluice.Duration{sluice.Duration(time.Minute)}, MaxAttempts: 10,
	}})
	events := make([]sluice.Event, 0, 2*lanes)
	for round := range 2 {
		for i := range lanes {
			id := fmt.Sprintf("e%d-%d", i, round)
			if round == 0 {
				w.endpoint.fails[id] = 1
			}
			events = append(events, sluice.Event{
				Path: sluice.Path(fmt.Sprintf("/a/%d", i)), ID: id, Type: "t", Source: "/test", Time: time.Now(), Data: []byte(`{}`),
			})
		}
	}
	for len(events) > 0 {
		n := min(500, len(events))
		_, err := w.store.Log.Publish(context.Background(), "n", events[:n])
		require.NoError(t, err)
		events = events[n:]
	}
	w.total = 2 * lanes
	proc := w.start(t)
	require.True(t, within(2*time.Minute, func() bool { return parked(t, w) == lanes && inFlight(t, w) == 0 }), "all lanes are parked")
	require.Zero(t, w.endpoint.delivered(), "what came later waits behind")
	watch := faulttest.Begin(t, "parked-restart")
	if faulttest.Long() {
		watch.Wait(20 * time.Second)
	}
	proc.crash()
	dueNow(t, w)

	watch.Recovered()
	proc = w.start(t)
	defer proc.stop()
	w.publish(t, "/a/healthy", "healthy")
	w.total++
	require.True(t, within(patience, func() bool { return w.endpoint.took("healthy") }))
	resumed := watch.Resumed()
	most := 0
	require.True(t, within(60*time.Second, func() bool {
		most = max(most, inFlight(t, w))
		return w.endpoint.delivered() == w.total && parked(t, w) == 0
	}), "every lane is read back")
	a := w.compare(sluice.OrderByPath)
	t.Logf("%+v, %d lanes, a healthy one after %s, at most %d pending", a, lanes, resumed, most)
	require.LessOrEqual(t, most, w.sub.Policy.Window)
	require.Zero(t, a.Twice)
	watch.End(a, fmt.Sprintf("%d lanes with a backlog; the first delivery is of a healthy path; JetStream held %d at most", lanes, most))
}

func (e *endpoint) took(id string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.good[id] > 0
}

func parked(t *testing.T, w *world) int {
	t.Helper()
	all, err := w.deliveries.Parked(t.Context(), w.sub)
	if err != nil {
		return -1
	}
	return len(all)
}

// dueNow makes every parked lane due, as if its time had passed.
func dueNow(t *testing.T, w *world) {
	t.Helper()
	parked, err := w.deliveries.Parked(t.Context(), w.sub)
	require.NoError(t, err)
	for _, e := range parked {
		e.NextAt = time.Now()
		_, err := w.deliveries.Park(t.Context(), w.sub, e.Parked, e.Revision)
		require.NoError(t, err)
	}
}
