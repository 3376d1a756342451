package delivery_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/delivery"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// patience is how long a test waits for what has to happen.
const patience = time.Minute

// mood is an endpoint that is well or not, with everything.
type mood struct {
	status atomic.Int64  // of every answer; 0: none comes
	wait   time.Duration // what a failure asks for
	asked  atomic.Int64
	gone   atomic.Int64 // how many answers are 410 first

	mu   sync.Mutex
	good map[string]int // the number of the attempt that arrived, by event
}

func newMood(status int64) *mood {
	m := &mood{good: map[string]int{}}
	m.status.Store(status)
	return m
}

func (m *mood) Send(_ context.Context, sub *sluice.Subscription, ev *sluice.Event, number int, _ ...*sluice.Event) sluice.Attempt {
	m.asked.Add(1)
	a := sluice.Attempt{
		Subscription: sub.ID, EventID: ev.ID, Seq: ev.Seq, Path: ev.Path, Type: ev.Type, Number: number,
		StartedAt: time.Now(), Status: int(m.status.Load()),
	}
	if m.gone.Add(-1) >= 0 {
		a.Status = 410
	}
	switch a.Status {
	case 200:
		a.Outcome = sluice.Delivered
		m.mu.Lock()
		m.good[ev.ID] = number
		m.mu.Unlock()
	case 410:
		a.Outcome = sluice.Gone
	default:
		a.Outcome, a.Error, a.RetryAfter = sluice.Failed, fmt.Sprint("status ", a.Status), m.wait
	}
	return a
}

// arrived returns the numbers of the attempts that arrived, by event.
func (m *mood) arrived() map[string]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.good)
}

// watcher remembers what an engine tells, and the acts of its registry.
type watcher struct {
	mu        sync.Mutex
	turns     []sluice.Breaker
	alerts    []int
	since     []time.Time
	throttled int
	withheld  int
	acts      []string
	spare     int // how many answers "gone" are of an earlier endpoint
}

func (o *watcher) Matched(*sluice.Subscription)                    {}
func (o *watcher) Attempted(*sluice.Subscription, *sluice.Attempt) {}
func (o *watcher) Buried(*sluice.Subscription, sluice.Reason)      {}
func (o *watcher) Turned(_ *sluice.Subscription, to sluice.Breaker) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.turns = append(o.turns, to)
}

func (o *watcher) Withheld(*sluice.Subscription) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.withheld++
}

func (o *watcher) withheldSoFar() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.withheld
}

func (o *watcher) Throttled(*sluice.Subscription) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.throttled++
}

func (o *watcher) Failing(_ *sluice.Subscription, percent int, since time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.alerts, o.since = append(o.alerts, percent), append(o.since, since)
}

func (o *watcher) Cancel(_ context.Context, _ *sluice.Subscription, first func() error) (bool, error) {
	if o.has(func(o *watcher) bool { o.spare--; return o.spare >= 0 }) {
		return false, o.act("spared")
	}
	return true, errors.Join(first(), o.act("cancelled"))
}

func (o *watcher) DisableFailing(context.Context, *sluice.Subscription, string) error {
	return o.act("disabled")
}

func (o *watcher) Revoke(context.Context, *sluice.Subscription) (bool, error) {
	return true, o.act("cancelled")
}

func (o *watcher) SuspendCostly(context.Context, *sluice.Subscription, string) error {
	return o.act("suspended")
}

func (o *watcher) act(what string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.acts = append(o.acts, what)
	return nil
}

// has reports whether something holds of what was told.
func (o *watcher) has(f func(*watcher) bool) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return f(o)
}

func (o *watcher) turned(to sluice.Breaker) bool {
	return o.has(func(o *watcher) bool { return slices.Contains(o.turns, to) })
}

func (o *watcher) did(what string) bool {
	return o.has(func(o *watcher) bool { return slices.Contains(o.acts, what) })
}

// moody is a world whose endpoint has a mood.
func moody(t *testing.T, status int64, policy sluice.Policy) (*world, *mood, *watcher) {
	t.Helper()
	w, m, o := newWorld(t, connect(t), "n", policy), newMood(status), &watcher{}
	w.observe = o
	w.ports = func(p *delivery.Deps) { p.Sender, p.Registry = m, o }
	return w, m, o
}

func steps(wait time.Duration, attempts int) sluice.Retry {
	return sluice.Retry{Preset: sluice.PresetCustom, Steps: []sluice.Duration{sluice.Duration(wait)}, MaxAttempts: attempts}
}

func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	require.Eventually(t, f, patience, 10*time.Millisecond, what)
}

func (w *world) status(t *testing.T) sluice.Status {
	t.Helper()
	status, err := w.deliveries.Status(t.Context(), w.sub)
	require.NoError(t, err)
	return status
}

// attempts returns the recorded attempts, oldest first.
func (w *world) attempts(t *testing.T) []sluice.Attempt {
	t.Helper()
	var all []sluice.Attempt
	q := model.HistoryQuery{Limit: 1000}
	for {
		page, next, err := w.deliveries.Attempts(t.Context(), w.sub, q)
		require.NoError(t, err)
		for _, p := range page {
			all = append(all, p.Value)
		}
		if next == 0 {
			break
		}
		q.Before = next
	}
	slices.SortStableFunc(all, func(a, b sluice.Attempt) int { return a.StartedAt.Compare(b.StartedAt) })
	return once(all)
}

func (w *world) probes(t *testing.T) int {
	t.Helper()
	n := 0
	for _, a := range w.attempts(t) {
		if a.Probe {
			n++
		}
	}
	return n
}

// inTrouble stores that the breaker is open, as an earlier process would have.
func (w *world) inTrouble(t *testing.T) {
	t.Helper()
	require.NoError(t, w.deliveries.PutHealth(t.Context(), w.sub, model.Health{Breaker: sluice.BreakerOpen, ProbeAt: time.Now()}))
}

// An outage opens the breaker; from then on nothing is burnt, restarts included, and all arrives
// when it is over.
func TestOutage_BurnsNoAttempts(t *testing.T) { // issue 3, item 3; S0-41
	t.Parallel()
	w, m, o := moody(t, 500, sluice.Policy{Window: 8, Retry: steps(200*time.Millisecond, 100)})
	for i := range 6 {
		w.publish(t, sluice.Path(fmt.Sprint("/a/early", i)), fmt.Sprint("early", i))
	}
	proc := w.start(t)
	eventually(t, "it opens", func() bool { return o.turned(sluice.BreakerOpen) })
	eventually(t, "every replica can tell", func() bool { return w.status(t).Breaker == sluice.BreakerOpen })
	require.NotNil(t, w.status(t).NextAttemptAt)
	parked := w.status(t).Parked
	for i := range 30 {
		w.publish(t, sluice.Path(fmt.Sprint("/a/late", i)), fmt.Sprint("late", i))
	}
	eventually(t, "it probes", func() bool { return w.probes(t) > 0 })

	proc.stop()
	require.Equal(t, sluice.BreakerOpen, w.status(t).Breaker)
	probes := w.probes(t)
	proc = w.start(t)
	defer func() { proc.stop() }()
	eventually(t, "it goes on probing", func() bool { return w.probes(t) > probes })
	require.Equal(t, parked, w.status(t).Parked, "no lane is parked anew")
	m.status.Store(200)
	eventually(t, "all arrive", func() bool { return len(m.arrived()) == 36 })
	eventually(t, "it closes", func() bool { return o.turned(sluice.BreakerClosed) })
	eventually(t, "and that is forgotten", func() bool {
		h, err := w.deliveries.Health(t.Context(), w.sub)
		return err == nil && h == model.Health{}
	})
	require.Equal(t, sluice.BreakerClosed, w.status(t).Breaker)
	w.nothingWasBurnt(t, m)
}

// nothingWasBurnt checks that no attempt from the first probe on was a failure that counts.
func (w *world) nothingWasBurnt(t *testing.T, m *mood) {
	t.Helper()
	burnt, probing := map[string]int{}, false
	for _, a := range w.attempts(t) {
		probing = probing || a.Probe
		if a.Outcome != sluice.Delivered && !a.Probe {
			require.False(t, probing, "a failure that counts after a probe: %+v", a)
			burnt[a.EventID]++
		}
	}
	for id, number := range m.arrived() {
		require.Equal(t, burnt[id]+1, number, id)
	}
}

// A probe that fails leaves a live head where it is, with its number.
func TestProbe_FailureIsNotCounted(t *testing.T) { // issue 3, item 3
	t.Parallel()
	w, m, _ := moody(t, 503, sluice.Policy{Window: 8, Retry: steps(time.Hour, 2)})
	w.inTrouble(t)
	w.publish(t, "/a/1", "one")
	w.publish(t, "/a/2", "two")
	proc := w.start(t)
	defer proc.stop()
	eventually(t, "they take turns", func() bool {
		probed := map[string]bool{}
		for _, a := range w.attempts(t) {
			probed[a.EventID] = true
		}
		return len(probed) == 2
	})
	require.Zero(t, w.status(t).Parked)
	m.status.Store(200)
	eventually(t, "both arrive", func() bool { return len(m.arrived()) == 2 })
	require.Equal(t, map[string]int{"one": 1, "two": 1}, m.arrived())
}

// A parked lane keeps its attempts.
func TestProbe_OfAParkedLaneIsNotCounted(t *testing.T) { // issue 3, item 3
	t.Parallel()
	w, m, _ := moody(t, 503, sluice.Policy{Window: 8, Retry: steps(time.Millisecond, 3)})
	w.inTrouble(t)
	w.publish(t, "/a/1", "one")
	lane := sluice.Parked{Lane: w.sub.ID + ".p.a.1", Path: "/a/1", FromSeq: 1, EventID: "one", Attempts: 2, NextAt: time.Now()}
	_, err := w.deliveries.Park(t.Context(), w.sub, lane, 0)
	require.NoError(t, err)
	proc := w.start(t)
	defer proc.stop()
	eventually(t, "two probes", func() bool { return w.probes(t) >= 2 })
	require.Zero(t, w.status(t).DeadLetters)
	m.status.Store(200)
	eventually(t, "it arrives", func() bool { return len(m.arrived()) == 1 })
	require.GreaterOrEqual(t, m.arrived()["one"], 3)
}

func TestProbe_AnsweredGoneCancels(t *testing.T) { // S0-49
	t.Parallel()
	w, _, o := moody(t, 410, sluice.Policy{})
	w.inTrouble(t)
	w.publish(t, "/a/1", "one")
	proc := w.start(t)
	defer proc.stop()
	eventually(t, "it is cancelled", func() bool { return o.did("cancelled") })
	require.Zero(t, w.probes(t))
}

// A 410 of an endpoint that the subscription does not have any more is a failed attempt like others.
func TestGone_OfAnEarlierEndpointIsTriedAgain(t *testing.T) { // S0-49
	t.Parallel()
	for name, gone := range map[string]int{"a live lane": 1, "a parked lane": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, m, o := moody(t, 200, sluice.Policy{Retry: quickRetries})
			o.spare = gone
			m.gone.Store(int64(gone))
			proc := w.start(t)
			defer proc.stop()
			w.publish(t, "/a/1", "one")
			w.publish(t, "/a/1", "two")
			eventually(t, "they arrive", func() bool { return len(m.arrived()) == 2 })
			require.False(t, o.did("cancelled"))
			require.Zero(t, w.status(t).DeadLetters)
		})
	}
}

// What an endpoint refuses says nothing against the endpoint, and is counted.
func TestProbe_RefusedOneCounts(t *testing.T) {
	t.Parallel()
	w, _, o := moody(t, 400, sluice.Policy{Window: 8, Retry: steps(time.Millisecond, 2)})
	w.inTrouble(t)
	w.publish(t, "/a/1", "one")
	proc := w.start(t)
	defer proc.stop()
	eventually(t, "it is given up", func() bool { return w.status(t).DeadLetters == 1 })
	require.True(t, o.turned(sluice.BreakerHalfOpen))
	require.Zero(t, w.probes(t))
}

// Events that always fail do not keep an endpoint that is back from getting the others, and are
// given up.
func TestPoison_DoesNotKeepTheBreakerOpen(t *testing.T) {
	t.Parallel()
	for _, ordering := range []sluice.Ordering{sluice.OrderByPath, sluice.OrderNone} {
		t.Run(string(ordering), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, connect(t), "n", sluice.Policy{Window: 8, Ordering: ordering, Retry: steps(time.Millisecond, 3)})
			for i := range 60 {
				id := strconv.Itoa(i)
				if i%20 == 0 {
					w.endpoint.fails[id] = 1000
				}
				w.publish(t, sluice.Path(fmt.Sprint("/a/", i%20)), id)
			}
			w.inTrouble(t)
			proc := w.start(t)
			defer proc.stop()
			eventually(t, "the others arrive", func() bool { return w.endpoint.delivered() == 57 })
			eventually(t, "they are given up", func() bool { return w.status(t).DeadLetters == 3 })
			eventually(t, "it closes", func() bool { return w.status(t).Breaker == sluice.BreakerClosed })
		})
	}
}

// One lane that fails and one that does not take turns: the one would open the breaker whenever
// the other has had one event through.
func TestPoison_IsGivenUpWhileTheBreakerIsHalfOpen(t *testing.T) {
	t.Parallel()
	w := newWorld(t, connect(t), "n", sluice.Policy{Window: 8, Retry: steps(time.Millisecond, 3)})
	w.endpoint.fails["poison"] = 1000
	w.publish(t, "/a/bad", "poison")
	for i := range 40 {
		w.publish(t, "/a/good", strconv.Itoa(i))
	}
	w.inTrouble(t)
	proc := w.start(t)
	defer proc.stop()
	eventually(t, "the others arrive", func() bool { return w.endpoint.delivered() == 40 })
	eventually(t, "it is given up", func() bool { return w.status(t).DeadLetters == 1 })
}

// An endpoint that always fails, with a timetable that is over before that is an outage.
func TestTimetable_QuickOneEndsBeforeTheBreakerOpens(t *testing.T) { // S4-53, C07
	t.Parallel()
	w, _, o := moody(t, 500, sluice.Policy{Window: 8, Retry: steps(time.Millisecond, 3)})
	for i := range 20 {
		w.publish(t, sluice.Path(fmt.Sprint("/a/", i)), strconv.Itoa(i))
	}
	began := time.Now()
	proc := w.start(t)
	defer proc.stop()
	eventually(t, "all are given up", func() bool { return o.turned(sluice.BreakerOpen) || w.status(t).DeadLetters == 20 })
	if o.turned(sluice.BreakerOpen) {
		require.GreaterOrEqual(t, time.Since(began), 5*time.Second, "what lasts that long is an outage")
	}
}

// One lane in trouble is that lane's, however long it lasts.
func TestPoison_DoesNotOpenTheBreaker(t *testing.T) {
	t.Parallel()
	w, m, o := moody(t, 500, sluice.Policy{Window: 8, Retry: steps(10*time.Millisecond, 10000), DisableAfter: sluice.Duration(time.Hour)})
	w.publish(t, "/a/1", "one")
	w.publish(t, "/a/2", "two")
	proc := w.start(t)
	defer proc.stop()
	began := time.Now()
	eventually(t, "they fail for longer than an outage takes", func() bool {
		return m.asked.Load() > 20 && time.Since(began) > 6*time.Second
	})
	require.False(t, o.turned(sluice.BreakerOpen))
	require.Equal(t, sluice.BreakerClosed, w.status(t).Breaker)
}

func TestRetryAfter_StopsAllLanes(t *testing.T) {
	t.Parallel()
	const wait = 2 * time.Second
	w, m, o := moody(t, 503, sluice.Policy{Window: 8, Retry: steps(time.Millisecond, 5)})
	m.wait = wait
	w.publish(t, "/a/1", "first")
	proc := w.start(t)
	defer proc.stop()
	eventually(t, "a lane waits", func() bool { return o.has(func(o *watcher) bool { return o.throttled > 0 }) })
	m.status.Store(200)
	for i := range 20 {
		w.publish(t, sluice.Path(fmt.Sprint("/a/other", i)), strconv.Itoa(i))
	}
	eventually(t, "all arrive", func() bool { return len(m.arrived()) == 21 })
	eventually(t, "all is recorded", func() bool { return len(w.attempts(t)) >= 22 })
	all := w.attempts(t)
	for _, a := range all[1:] {
		require.GreaterOrEqual(t, a.StartedAt.Sub(all[0].StartedAt), wait, a.EventID)
	}
	require.False(t, o.turned(sluice.BreakerOpen))
}

func TestRetryAfter_IsKeptAcrossARestart(t *testing.T) {
	t.Parallel()
	w, m, o := moody(t, 429, sluice.Policy{Window: 8, Retry: steps(time.Millisecond, 5)})
	m.wait = time.Hour
	w.publish(t, "/a/1", "first")
	proc := w.start(t)
	eventually(t, "a lane waits", func() bool { return o.has(func(o *watcher) bool { return o.throttled == 1 }) })
	eventually(t, "every replica can tell", func() bool {
		next := w.status(t).NextAttemptAt
		return next != nil && time.Until(*next) > 50*time.Minute
	})
	proc.stop()
	w.publish(t, "/a/2", "second")
	proc = w.start(t)
	defer proc.stop()
	eventually(t, "still", func() bool { return o.has(func(o *watcher) bool { return o.throttled == 2 }) })
	require.EqualValues(t, 1, m.asked.Load())
}
