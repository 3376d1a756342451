package delivery_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/delivery"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/testkit/faulttest"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/internal/testkit/storetest"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// writes are the kinds of commands to NATS that change something that lasts.
func writes() []faulttest.Kind {
	return []faulttest.Kind{
		{"attempt", "attempts.", ""},
		{"dead letter", "dead.", ""},
		{"lookout", "$KV." + streams.Lanes + ".=lookout", ""},
		{"unpark", "$KV." + streams.Lanes + ".", "KV-Operation: PURGE"},
		{"park", "$KV." + streams.Lanes + ".", ""},
		{"lease returned", "$KV." + streams.Leases + ".", "KV-Operation: PURGE"},
		{"lease", "$KV." + streams.Leases + ".", ""},
		{"ack", "$JS.ACK.", "+ACK"},
		{"requeue", "$JS.ACK.", "-NAK"},
		{"consumer", "$JS.API.CONSUMER.", `"durable_name"`},
		{"pull", "$JS.API.CONSUMER.MSG.NEXT.", ""},
	}
}

// point is a moment of a process: right before, or right after, the write of that number of
// its kind.
type point struct {
	kind   string
	number int
	after  bool
}

// victim is a process that dies at a point.
type victim struct {
	*process

	wire   *faulttest.Wire
	at     point
	seen   map[string]int // writes by kind; the wire's own
	killed chan struct{}
	endLog func()
}

// see counts a write, and ends the process if it is the one.
func (v *victim) see(said []byte) bool {
	if v.dead.Load() {
		return false
	}
	kind := faulttest.KindOf(said, writes())
	v.seen[kind]++
	if kind != v.at.kind || v.seen[kind] != v.at.number {
		return true
	}
	v.dead.Store(true)
	close(v.killed)
	if !v.at.after {
		go v.wire.HangUp()
	}
	return v.at.after
}

// mortalSender sends nothing once its process is dead.
type mortalSender struct {
	*endpoint

	process *process
}

func (s mortalSender) Send(ctx context.Context, sub *sluice.Subscription, ev *sluice.Event, number int, more ...*sluice.Event) sluice.Attempt {
	if s.process.dead.Load() {
		return sluice.Attempt{Number: number, StartedAt: time.Now(), Outcome: sluice.Failed, Error: "dead"}
	}
	return s.endpoint.Send(ctx, sub, ev, number, more...)
}

// discreet is a gate that withholds some events.
type discreet struct{}

func (discreet) Decide(_ *sluice.Subscription, ev *sluice.Event, _ time.Time) model.Decision {
	if strings.HasPrefix(ev.ID, "secret") {
		return model.Withhold
	}
	return model.Pass
}

// run starts an engine that holds its subscriptions by leases, over a store of its own. What it
// returns ends the attempt log, which otherwise ends after the engine.
func (w *world) run(t *testing.T, p *process) (endLog func()) {
	t.Helper()
	log, err := p.deliveries.AttemptLog()
	require.NoError(t, err)
	leases, err := p.store.Leases(t.Context(), "replica", nil)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	logging, endLog := context.WithCancel(context.WithoutCancel(ctx))
	p.log, p.cancel, p.ended = log, cancel, make(chan struct{})
	ports := delivery.Deps{Sources: p, Log: p, Lanes: p, Events: p.store.Log, Sender: mortalSender{w.endpoint, p}, Gate: discreet{}, Registry: p}
	p.share(&ports, nil)
	engine := delivery.New(w.watch, leases, ports, delivery.Options{})
	var parts sync.WaitGroup
	parts.Go(func() { _ = log.Run(logging) })
	go func() {
		defer close(p.ended)
		_ = engine.Run(ctx)
		endLog()
		parts.Wait()
	}()
	return endLog
}

// killer lets a scenario run, again and again, on a server of its own.
type killer struct {
	t      *testing.T
	nats   *natstest.Server
	store  storetest.Rooms
	policy sluice.Policy
	runs   int
	ends   *sync.WaitGroup
}

func newKiller(t *testing.T, ordering sluice.Ordering, ends *sync.WaitGroup) *killer {
	t.Helper()
	server := natstest.Listening(t)
	return &killer{t: t, nats: server, store: connectTo(t, server), ends: ends, policy: sluice.Policy{
		Window: 2, Ordering: ordering,
		Retry: sluice.Retry{Preset: sluice.PresetCustom, Steps: []sluice.Duration{sluice.Duration(time.Millisecond)}, MaxAttempts: 3},
	}}
}

// scenario is three paths: an event that fails twice with others behind it, one that never
// succeeds, and healthy ones; one of the paths is its consumer's only one. Three events are withheld: of
// a parked lane, of live ones, and the last of a path.
func (k *killer) scenario() *world {
	k.runs++
	w := newWorld(k.t, k.store, fmt.Sprintf("n%d", k.runs), k.policy)
	w.endpoint.fails = map[string]int{"late": 2, "doomed": 100}
	for _, e := range [][2]string{
		{"/a/1", "late"},
		{"/a/2", "doomed"},
		{"/a", "fine1"},
		{"/a/1", "behind1"},
		{"/a/1", "secret1"},
		{"/a", "secret2"},
		{"/a/1", "behind2"},
		{"/a/2", "survivor"},
		{"/a", "fine2"},
		{"/a/1", "behind3"},
		{"/a/2", "secret3"},
	} {
		w.publish(k.t, sluice.Path(e[0]), e[1])
	}
	w.total = 7 // one is doomed, and three are withheld
	return w
}

// start starts a process that dies at a point.
func (k *killer) start(w *world, at point) *victim {
	v := &victim{process: &process{}, at: at, seen: map[string]int{}, killed: make(chan struct{})}
	v.wire = faulttest.OpenWire(k.t, strings.TrimPrefix(k.nats.ClientURL(), "nats://"), v.see)
	v.store = storetest.Connect(k.t, natsstore.Options{URL: "nats://" + v.wire.Addr()})
	v.deliveries = v.store.Deliveries
	v.endLog = w.run(k.t, v.process)
	return v
}

// bury ends what is left of a process, and returns when NATS knows that it is gone.
func (k *killer) bury(v *victim) {
	v.wire.HangUp()
	v.wire.Wait()
	k.ends.Go(func() {
		v.endLog()
		v.store.Close()
		v.stop()
		v.wire.Close()
	})
}

// settled reports whether nothing is left to do.
func (k *killer) settled(w *world) bool {
	if w.endpoint.delivered() < w.total {
		return false
	}
	status, err := w.deliveries.Status(k.t.Context(), w.sub)
	return err == nil && status.DeadLetters == 1 && status.Parked == 0 && status.Backlog == 0
}

// count lets the scenario run in peace and returns how many writes of each kind there are.
func (k *killer) count() map[string]int {
	w := k.scenario()
	v := k.start(w, point{})
	require.True(k.t, within(patience, func() bool { return k.settled(w) }))
	v.stop()
	v.store.Close()
	v.wire.Close()
	delete(v.seen, "")
	return v.seen
}

// cut is what came of one death.
type cut struct {
	reached bool
	arrived faulttest.Arrived
	resumed time.Duration // until all was done
	wrong   string
}

// try lets the scenario run, kills the process at the point, starts another one and checks
// what was promised.
func (k *killer) try(at point) (c cut) {
	w := k.scenario()
	v := k.start(w, at)
	within(patience, func() bool { return isClosed(v.killed) || k.settled(w) })
	c.reached = isClosed(v.killed)
	if !c.reached {
		v.cancel() // its last writes are points as well
		select {
		case <-v.killed:
			c.reached = true
		case <-v.ended:
		}
	}
	k.bury(v)
	next := &process{store: k.store, deliveries: k.store.Deliveries}
	began := time.Now()
	w.run(k.t, next)
	if !within(time.Minute, func() bool { return k.settled(w) }) {
		c.wrong = fmt.Sprintf("not settled after %+v: %d of %d delivered", at, w.endpoint.delivered(), w.total)
	}
	c.resumed = time.Since(began)
	next.stop()
	c.arrived = w.compare(k.policy.Ordering)
	if n := w.secretsSent(); n > 0 {
		c.wrong = fmt.Sprintf("after %+v: %d withheld events were sent", at, n)
	}
	if c.arrived.Disorder != "" || c.arrived.Twice > k.policy.Window {
		c.wrong = fmt.Sprintf("after %+v: %+v", at, c.arrived)
	}
	return c
}

// secretsSent returns how many withheld events were sent.
func (w *world) secretsSent() (n int) {
	w.endpoint.mu.Lock()
	defer w.endpoint.mu.Unlock()
	for id := range w.endpoint.tries {
		if strings.HasPrefix(id, "secret") {
			n++
		}
	}
	return n
}

// compare compares what the endpoint took with what was published.
func (w *world) compare(ordering sluice.Ordering) (a faulttest.Arrived) {
	w.endpoint.mu.Lock()
	defer w.endpoint.mu.Unlock()
	a.Events, a.Lost = w.total, w.total-len(w.endpoint.good)
	for _, n := range w.endpoint.good {
		a.Twice += n - 1
	}
	if ordering == sluice.OrderNone {
		return a
	}
	orders := maps.Clone(w.endpoint.first)
	if ordering == sluice.OrderAll {
		orders[""] = w.endpoint.all
	}
	for path, order := range orders {
		if !slices.IsSorted(order) {
			a.Disorder = fmt.Sprintf("%s: %v", path, order)
		}
	}
	return a
}

// points returns every point of a run with so many writes; where it is short, only the first
// and the last few of a kind that there are many of.
func points(writes map[string]int) (all []point) {
	const some = 2
	for _, kind := range slices.Sorted(maps.Keys(writes)) {
		for n := 1; n <= writes[kind]; n++ {
			if !faulttest.Long() && n > some && n <= writes[kind]-some {
				continue
			}
			all = append(all, point{kind, n, false}, point{kind, n, true})
		}
	}
	return all
}

// deaths is what came of many.
type deaths struct {
	points  int
	visited int
	reached map[string]int // by kind
	sum     faulttest.Arrived
	slowest time.Duration
	wrong   []string
}

func (d *deaths) enter(at point, c cut) {
	d.points++
	d.sum.Events, d.sum.Lost, d.sum.Twice = d.sum.Events+c.arrived.Events, d.sum.Lost+c.arrived.Lost, d.sum.Twice+c.arrived.Twice
	d.slowest = max(d.slowest, c.resumed)
	if c.wrong != "" {
		d.wrong = append(d.wrong, c.wrong)
	}
	if c.reached {
		d.visited++
		d.reached[at.kind]++
	}
}

// visit lets processes die at all the points, several at a time.
func (d *deaths) visit(t *testing.T, todo []point, killers []*killer) {
	t.Helper()
	var mu sync.Mutex
	var next atomic.Int64
	var workers sync.WaitGroup
	for _, k := range killers {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(todo); i = int(next.Add(1)) - 1 {
				c := k.try(todo[i])
				mu.Lock()
				d.enter(todo[i], c)
				mu.Unlock()
			}
		})
	}
	workers.Wait()
}

// Issue 3, "Faults": the process may die right before and right after any write to NATS that
// it makes. Nothing is lost, what was under way is sent twice at most, first deliveries keep the
// order of their path, what is exhausted is one dead letter, and no lane stays parked.
func TestEngine_SurvivesDeathBetweenAnyTwoWrites(t *testing.T) { // S4-17, S4-23, S0-41, C01
	t.Parallel()
	orderings := []sluice.Ordering{sluice.OrderByPath}
	if faulttest.Long() {
		orderings = append(orderings, sluice.OrderNone, sluice.OrderAll)
	}
	watch := faulttest.Begin(t, "kill-any-write")
	var ends sync.WaitGroup
	defer ends.Wait()
	all := deaths{reached: map[string]int{}}
	for _, ordering := range orderings {
		var killers []*killer
		for range 4 {
			killers = append(killers, newKiller(t, ordering, &ends))
		}
		writes := killers[0].count()
		all.visit(t, points(writes), killers)
		t.Logf("%s: %v, %+v", ordering, writes, all)
		for kind := range writes {
			require.NotZero(t, all.reached[kind], "no process died at %q", kind)
		}
	}
	require.Empty(t, all.wrong)
	watch.End(all.sum, fmt.Sprintf("%d deaths at %d points, each with 7 events; all was done %s after the next start at the latest; the memory is that of the test's many servers and namespaces", all.visited, all.points, all.slowest.Round(10*time.Millisecond)))
}

// within reports whether a condition came to hold in time.
func within(limit time.Duration, condition func() bool) bool {
	end := time.Now().Add(limit)
	for wait := 2 * time.Millisecond; !condition(); wait = min(wait*3/2, 50*time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
		<-time.After(wait)
	}
	return true
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
