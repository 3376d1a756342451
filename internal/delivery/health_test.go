package delivery_test

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/delivery"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// An endpoint that fails for disable_after ends its subscription, with any replicas that served it, and says so
// four times on the way.
func TestFailing_DisablesAfterFourAnnouncements(t *testing.T) { // issue 3, item 3
	t.Parallel()
	w, m, o := moody(t, 500, sluice.Policy{
		Window: 8, Retry: steps(20*time.Millisecond, 100000), DisableAfter: sluice.Duration(6 * time.Second),
	})
	w.publish(t, "/a/1", "one")
	proc := w.start(t)
	eventually(t, "half of the time has gone", func() bool { return o.has(func(o *watcher) bool { return len(o.alerts) > 0 }) })
	eventually(t, "and that is stored", func() bool {
		h, err := w.deliveries.Health(t.Context(), w.sub)
		return err == nil && h.Alerted > 0
	})
	proc.stop()
	proc = w.start(t)
	eventually(t, "it is disabled", func() bool { return o.did("disabled") })
	m.status.Store(200)
	proc.stop()
	o.mu.Lock()
	defer o.mu.Unlock()
	end := slices.Index(o.alerts, 100) + 1 // nothing disables it here: what follows is of other failures
	require.Positive(t, end)
	require.IsIncreasing(t, append([]int{0}, o.alerts[:end]...), "each once")
	for _, since := range o.since[:end] {
		require.True(t, since.Equal(o.since[0]), "it goes on after the restart")
	}
}

func TestFailing_EndsWithASuccess(t *testing.T) {
	t.Parallel()
	w, m, o := moody(t, 500, sluice.Policy{Window: 8, Retry: steps(20*time.Millisecond, 1000)})
	before := model.Health{FailingSince: time.Now().Add(-time.Hour).UTC().Round(0), Alerted: 50}
	require.NoError(t, w.deliveries.PutHealth(t.Context(), w.sub, before))
	w.publish(t, "/a/1", "one")
	proc := w.start(t)
	defer proc.stop()
	eventually(t, "it fails", func() bool { return m.asked.Load() > 2 })
	h, err := w.deliveries.Health(t.Context(), w.sub)
	require.NoError(t, err)
	require.Equal(t, before, h)
	m.status.Store(200)
	eventually(t, "it is forgotten", func() bool {
		h, err := w.deliveries.Health(t.Context(), w.sub)
		return err == nil && h == model.Health{}
	})
	require.True(t, o.has(func(o *watcher) bool { return len(o.alerts) == 0 }))
}

// A redrive or a test that succeeds is a success in the time of disable_after, so that the next failure counts anew.
func TestFailing_EndsWithASuccessElsewhere(t *testing.T) {
	t.Parallel()
	for _, kind := range []sluice.ReplayKind{sluice.ReplayDeadLetters, sluice.ReplayProved} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			w, m, o := moody(t, 500, sluice.Policy{Retry: steps(time.Millisecond, 1), DisableAfter: sluice.Duration(time.Second)})
			replays := watchReplays{w.deliveries.Replays(), w.sub.ID}
			w.replays = replays
			ports := w.ports
			w.ports = func(p *delivery.Deps) { ports(p); p.Replays, p.Letters = replays, w.deliveries }
			proc := w.start(t)
			defer proc.stop()
			w.publish(t, "/a/1", "one")
			eventually(t, "one dies", func() bool { return w.status(t).DeadLetters == 1 })
			failing := func() bool { return proc.engine.Gauges()[0].Failing }
			eventually(t, "every attempt fails", failing)
			since := time.Now()

			m.status.Store(200)
			require.NoError(t, replays.Add(t.Context(), sluice.Replay{
				ID: "r", Subscription: w.sub.ID, Namespace: w.sub.Namespace, Kind: kind, From: 1, To: 1, Next: 1, Total: 1,
				State: sluice.ReplayRunning, Began: w.sub.Began(), CreatedAt: time.Now(),
			}))
			eventually(t, "it has succeeded", func() bool {
				now, err := replays.Replay(t.Context(), sluice.Replay{ID: "r", Subscription: w.sub.ID})
				return err == nil && now.State == sluice.ReplayDone
			})
			eventually(t, "it fails no more", func() bool { return !failing() })
			eventually(t, "disable_after has gone", func() bool { return time.Since(since) > 2*time.Second })
			m.status.Store(500)
			w.publish(t, "/a/2", "two")
			eventually(t, "every attempt fails again", failing)
			require.False(t, o.did("disabled"))
		})
	}
}

// A caller that changes a subscription while no replica serves it, or its endpoint, wants to
// see at once what comes of it.
func TestConfigure_ChangeStartsFailureCountAnew(t *testing.T) {
	t.Parallel()
	w, m, _ := moody(t, 200, sluice.Policy{})
	require.NoError(t, w.deliveries.PutHealth(t.Context(), w.sub, model.Health{
		Breaker: sluice.BreakerOpen, ProbeAt: time.Now().Add(time.Hour), Revision: 7,
	}))
	w.publish(t, "/a/1", "one")
	proc := w.start(t)
	defer func() { proc.stop() }()
	eventually(t, "it was resumed", func() bool { return len(m.arrived()) == 1 })
	proc.stop()

	m.status.Store(503)
	m.wait = time.Hour
	w.inTrouble(t)
	w.publish(t, "/a/2", "two")
	proc = w.start(t)
	eventually(t, "it is to wait for an hour", func() bool { return w.probes(t) == 1 })
	m.status.Store(200)
	w.watch.change(func(sub *sluice.Subscription) { sub.Endpoint.URL = "https://elsewhere.example" })
	eventually(t, "another endpoint", func() bool { return len(m.arrived()) == 2 })
}

func TestThrottled_IsAnnounced(t *testing.T) { // issue 3, item 4
	t.Parallel()
	w, m, o := moody(t, 200, sluice.Policy{Window: 8, Rate: sluice.Rate{PerSecond: 1000, PerMinute: 120}})
	for i := range 17 {
		w.publish(t, sluice.Path(fmt.Sprint("/a/", i)), strconv.Itoa(i))
	}
	proc := w.start(t)
	defer proc.stop()
	eventually(t, "all arrive", func() bool { return len(m.arrived()) == 17 })
	eventually(t, "all is recorded", func() bool { return len(w.attempts(t)) == 17 })
	require.True(t, o.has(func(o *watcher) bool { return o.throttled > 0 }))
	all := w.attempts(t)
	require.GreaterOrEqual(t, all[len(all)-1].StartedAt.Sub(all[0].StartedAt), time.Second, "two a second after a dozen, which takes two seconds")
}

// A subscription that was paused and resumed while its endpoint was down asks first: no lane that
// waits loses an attempt.
func TestResume_ProbesBeforeItSends(t *testing.T) {
	t.Parallel()
	w, m, _ := moody(t, 503, sluice.Policy{Window: 8, Retry: steps(20*time.Millisecond, 1000)})
	require.NoError(t, w.deliveries.PutHealth(t.Context(), w.sub, model.Health{
		Breaker: sluice.BreakerOpen, ProbeAt: time.Now().Add(time.Hour), Revision: 7,
	}))
	for i := range 10 {
		w.publish(t, sluice.Path(fmt.Sprint("/a/", i)), strconv.Itoa(i))
	}
	proc := w.start(t)
	defer func() { proc.stop() }()
	eventually(t, "it asks twice", func() bool { return m.asked.Load() >= 2 })
	for _, a := range w.attempts(t) {
		require.True(t, a.Probe, "%+v", a)
	}
	require.Zero(t, w.status(t).Parked)
	m.status.Store(200)
	eventually(t, "all arrive", func() bool { return len(m.arrived()) == 10 })
}
