package delivery_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/delivery"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// judge says what came of itself; for a while it does not know anything.
type judge struct {
	mu     sync.Mutex
	away   bool
	loops  map[string]bool
	asked  map[string]int
	denied int // answers while it was away
}

func (j *judge) Check(_ context.Context, ev *sluice.Event) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.away {
		j.denied++
		return sluice.Errorf(sluice.Unavailable, "away")
	}
	j.asked[ev.ID]++
	if j.loops[ev.ID] {
		return sluice.Errorf(sluice.EventLoopDetected, "it is part of an event loop")
	}
	return nil
}

func (j *judge) set(change func()) {
	j.mu.Lock()
	defer j.mu.Unlock()
	change()
}

// caused publishes an event that names a cause.
func (w *world) caused(t require.TestingT, path sluice.Path, id string) {
	_, err := w.store.Log.Publish(context.Background(), w.sub.Namespace, []sluice.Event{{
		Path: path, ID: id, Type: "t", Source: "/test", Time: time.Now(), Data: []byte(`{}`), Extensions: map[string]string{sluice.CausationID: "c"},
	}})
	require.NoError(t, err)
}

// S4-82: an event that came of itself is not sent, in any state of its lane; the lane goes on.
func TestLoop_IsADeadLetter(t *testing.T) {
	t.Parallel()
	for _, onDead := range []sluice.OnDead{sluice.DeadContinues, sluice.DeadHolds} {
		w := newWorld(t, connect(t), "loops", sluice.Policy{Retry: quickRetries, OnDead: onDead})
		j := &judge{loops: map[string]bool{"live": true, "behind": true, "late": true}, asked: map[string]int{}}
		w.ports = func(p *delivery.Deps) { p.Causes = j }
		w.endpoint.fails["head"] = 3
		w.caused(t, "/a/x", "live")
		w.caused(t, "/a/x", "fine")
		w.publish(t, "/a/x", "plain")
		w.publish(t, "/a/y", "head") // its lane is parked
		w.caused(t, "/a/y", "behind")
		w.publish(t, "/a/y", "after")
		p := w.start(t)
		require.Eventually(t, func() bool { return w.endpoint.delivered() == 4 && len(w.letters(t)) == 2 }, time.Minute, time.Millisecond)
		p.stop()
		for _, d := range w.letters(t) {
			require.Equal(t, []any{sluice.Loop, 0, "it is part of an event loop"}, []any{d.Reason, d.Attempts, d.LastError}, d.EventID)
			require.Zero(t, w.endpoint.tries[d.EventID])
		}
		require.Equal(t, map[string]int{"fine": 1, "plain": 1, "head": 1, "after": 1}, w.endpoint.good)
		require.Zero(t, j.asked["plain"], "who names no cause is not asked about")
	}
}

func TestLoop_UncheckableEventWaits(t *testing.T) {
	t.Parallel()
	w := newWorld(t, connect(t), "unknown", sluice.Policy{Retry: quickRetries})
	j := &judge{away: true, loops: map[string]bool{"loop": true}, asked: map[string]int{}}
	w.ports = func(p *delivery.Deps) { p.Causes = j }
	w.caused(t, "/a/x", "e")
	w.caused(t, "/a/y", "loop")
	w.publish(t, "/a/z", "plain")
	p := w.start(t)
	asked := func(n int) func() bool {
		return func() bool {
			j.mu.Lock()
			defer j.mu.Unlock()
			return j.denied >= n && w.endpoint.delivered() == 1
		}
	}
	require.Eventually(t, asked(6), time.Minute, time.Millisecond, "it is asked again, and others are sent")
	p.stop() // a restart changes nothing
	require.Zero(t, w.endpoint.tries["e"]+w.endpoint.tries["loop"])
	require.Empty(t, w.letters(t))
	var before int
	j.set(func() { before = j.denied })
	p = w.start(t)
	defer p.stop()
	require.Eventually(t, asked(before+4), time.Minute, time.Millisecond)
	j.set(func() { j.away = false })
	require.Eventually(t, func() bool { return w.endpoint.delivered() == 2 && len(w.letters(t)) == 1 }, time.Minute, time.Millisecond)
	require.Equal(t, map[string]int{"e": 1, "plain": 1}, w.endpoint.good)
	require.Equal(t, "loop", w.letters(t)[0].EventID)
}

// A mark may be set between two attempts.
func TestLoop_FoundLateKeepsItsAttempts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, connect(t), "between", sluice.Policy{Retry: quickRetries})
	j := &judge{loops: map[string]bool{}, asked: map[string]int{}}
	w.ports = func(p *delivery.Deps) { p.Causes = j }
	w.endpoint.fails["e"] = 1000
	w.caused(t, "/a/x", "e")
	p := w.start(t)
	defer p.stop()
	require.Eventually(t, func() bool {
		j.mu.Lock()
		defer j.mu.Unlock()
		return j.asked["e"] > 2
	}, time.Minute, time.Millisecond)
	j.set(func() { j.loops["e"] = true })
	require.Eventually(t, func() bool { return len(w.letters(t)) == 1 }, time.Minute, time.Millisecond)
	d := w.letters(t)[0]
	require.Equal(t, sluice.Loop, d.Reason)
	require.Positive(t, d.Attempts)
	require.False(t, d.FirstFailedAt.IsZero())
}
