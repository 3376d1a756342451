package delivery_test

import (
	"maps"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/delivery"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// garble publishes a message that says that it is a CloudEvent and is none.
func (w *world) garble(t *testing.T) {
	t.Helper()
	_, err := w.store.Conn().RequestMsg(&nats.Msg{
		Subject: "events.n.a.1", Header: nats.Header{"content-type": {"application/cloudevents+json"}}, Data: []byte("{broken"),
	}, patience)
	require.NoError(t, err)
}

// sent returns how often each event was sent.
func (e *endpoint) sent() map[string]int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return maps.Clone(e.tries)
}

// A message that cannot be decoded is not sent when its lane is read back either.
func TestMalformed_ReadBackIsADeadLetter(t *testing.T) { // S4-25
	t.Parallel()
	retry := steps(200*time.Millisecond, 9)
	for name, tt := range map[string]struct {
		policy sluice.Policy
		fails  int
	}{
		"parked": {sluice.Policy{Retry: retry}, 2},
		"batch":  {sluice.Policy{Retry: retry, Batch: sluice.Batch{Max: 10}}, 2},
		"quiet":  {quiet(5 * time.Second), 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, connect(t), "n", tt.policy)
			w.endpoint.fails["first"] = tt.fails
			w.publish(t, "/a/1", "first")
			if name == "quiet" {
				w.publish(t, "/a/1", "last") // it must not be superseded
			}
			w.garble(t)
			if name != "quiet" {
				w.publish(t, "/a/1", "last")
			}
			proc := w.start(t)
			defer proc.stop()
			eventually(t, "all are settled", func() bool { return w.endpoint.delivered() == 2 && w.status(t).DeadLetters == 1 })
			w.unparkNow(t)
			require.Equal(t, map[string]int{"first": tt.fails + 1, "last": 1}, w.endpoint.sent())
			letters, err := w.deliveries.DeadLetters(t.Context(), w.sub, 0, 1<<40, 9)
			require.NoError(t, err)
			require.Equal(t, []any{sluice.Path("/a/1"), sluice.Malformed}, []any{letters[0].Path, letters[0].Reason})
		})
	}
}

// A replay counts it as dead.
func TestMalformed_IsNotReplayed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, connect(t), "n", sluice.Policy{Retry: quickRetries})
	w.publish(t, "/a/1", "first")
	w.garble(t)
	w.publish(t, "/a/1", "last")
	stored := w.deliveries.Replays()
	w.ports = func(p *delivery.Deps) { p.Replays, p.Letters = stored, w.deliveries }
	w.replays = toldReplays{stored, func() {}}
	rep := sluice.Replay{ID: "r", Subscription: w.sub.ID, Namespace: "n", State: sluice.ReplayRunning, Kind: sluice.ReplayRange, From: 1, To: 3, Next: 1, Began: w.sub.Began(), CreatedAt: time.Now()}
	require.NoError(t, stored.Add(t.Context(), rep))
	proc := w.start(t)
	defer proc.stop()
	eventually(t, "it is done", func() bool {
		now, err := stored.Replay(t.Context(), rep)
		require.NoError(t, err)
		rep = now
		return now.State == sluice.ReplayDone
	})
	require.Equal(t, []uint64{2, 1}, []uint64{rep.Sent, rep.Dead})
	eventually(t, "the live ones are settled", func() bool { return w.status(t).DeadLetters > 0 && w.endpoint.sent()["last"] == 2 })
	require.Equal(t, map[string]int{"first": 2, "last": 2}, w.endpoint.sent())
}
