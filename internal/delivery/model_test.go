package delivery_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sluice-io/sluice/internal/delivery"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/natsstore/deliverystore"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/internal/testkit/storetest"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// errCut is what every call to a port returns after a crash. Its code makes it final.
var errCut = sluice.Errorf(sluice.Conflict, "the process is dead")

// process is an engine that can crash: from one moment on nothing that it does has any
// effect on the store.
type process struct {
	dead       atomic.Bool
	store      storetest.Rooms
	deliveries *deliverystore.Store
	log        *deliverystore.AttemptLog
	cancel     context.CancelFunc
	ended      chan struct{}
	engine     *delivery.Engine
}

func (p *process) crash() {
	p.dead.Store(true)
	p.stop()
}

func (p *process) stop() {
	p.cancel()
	<-p.ended
}

// The process's ports, which do nothing once it is dead.

func (p *process) Open(ctx context.Context, sub *sluice.Subscription) (delivery.Source, error) {
	if p.dead.Load() {
		return nil, errCut
	}
	src, err := p.deliveries.OpenSource(ctx, sub)
	if err != nil {
		return nil, err
	}
	out := make(chan *model.Delivery)
	go func() {
		for {
			select {
			case d := <-src.Deliveries():
				d.Receipt = mortal{d.Receipt, p}
				select {
				case out <- d:
				case <-src.Ended():
					return
				}
			case <-src.Ended():
				return
			}
		}
	}()
	return source{src, out, p}, nil
}

type source struct {
	*deliverystore.Source

	out     chan *model.Delivery
	process *process
}

func (s source) Look(ctx context.Context, wanted func(*sluice.Event) bool, lost func(from, to uint64) error) error {
	if s.process.dead.Load() {
		return errCut
	}
	return s.Source.Look(ctx, wanted, lost)
}

func (s source) Deliveries() <-chan *model.Delivery { return s.out }

type mortal struct {
	model.Receipt

	process *process
}

func (m mortal) Ack() error {
	if m.process.dead.Load() {
		return errCut
	}
	return m.Receipt.Ack()
}

func (p *process) Record(a *sluice.Attempt, namespace string, done func(error)) {
	if p.dead.Load() {
		done(errCut)
		return
	}
	p.log.Record(a, namespace, done)
}

func (p *process) Recover(ctx context.Context, sub *sluice.Subscription, after, floor uint64) (map[uint64]model.Progress, error) {
	return p.log.Recover(ctx, sub, after, floor)
}

func (p *process) Bury(ctx context.Context, d sluice.DeadLetter) error {
	if p.dead.Load() {
		return errCut
	}
	return p.log.Bury(ctx, d)
}

func (p *process) Look(ctx context.Context, sub *sluice.Subscription, wanted func(*sluice.Event) bool, lost func(from, to uint64) error) error {
	if p.dead.Load() {
		return errCut
	}
	return p.deliveries.Look(ctx, sub, wanted, lost)
}

func (p *process) Parked(ctx context.Context, sub *sluice.Subscription) ([]model.ParkedEntry, error) {
	return p.deliveries.Parked(ctx, sub)
}

func (p *process) Park(ctx context.Context, sub *sluice.Subscription, lane sluice.Parked, revision uint64) (uint64, error) {
	if p.dead.Load() {
		return 0, errCut
	}
	return p.deliveries.Park(ctx, sub, lane, revision)
}

func (p *process) Unpark(ctx context.Context, lane string, revision uint64) error {
	if p.dead.Load() {
		return errCut
	}
	return p.deliveries.Unpark(ctx, lane, revision)
}

func (p *process) Health(ctx context.Context, sub *sluice.Subscription) (model.Health, error) {
	return p.deliveries.Health(ctx, sub)
}

func (p *process) PutHealth(ctx context.Context, sub *sluice.Subscription, h model.Health) error {
	if p.dead.Load() {
		return errCut
	}
	return p.deliveries.PutHealth(ctx, sub, h)
}

func (p *process) Cancel(_ context.Context, _ *sluice.Subscription, first func() error) (bool, error) {
	return true, first()
}
func (p *process) DisableFailing(context.Context, *sluice.Subscription, string) error { return nil }

func (p *process) Revoke(context.Context, *sluice.Subscription) (bool, error)        { return true, nil }
func (p *process) SuspendCostly(context.Context, *sluice.Subscription, string) error { return nil }

// always owns everything.
type always struct{}

func (always) Holding() (then, still func(string) bool) {
	all := func(string) bool { return true }
	return all, all
}

func (always) Run(ctx context.Context, changed func() <-chan struct{}) error {
	changed()
	<-ctx.Done()
	return nil
}

// one tells of one subscription, and of what is made of it later.
type one struct {
	mu   sync.Mutex
	sub  *sluice.Subscription
	tell func(string, *sluice.Subscription) // nil: not watched
}

func (o *one) Watch(ctx context.Context, change func(string, *sluice.Subscription)) error {
	return o.watch(ctx, change, func() { change("", nil) })
}

func (o *one) watch(ctx context.Context, change func(string, *sluice.Subscription), told func()) error {
	o.mu.Lock()
	o.tell = change
	change(o.sub.ID, o.sub)
	o.mu.Unlock()
	if told != nil {
		told()
	}
	<-ctx.Done()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.tell = nil
	return nil
}

// change makes something else of the subscription.
func (o *one) change(apply func(*sluice.Subscription)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	sub := *o.sub
	apply(&sub)
	o.sub = &sub
	if o.tell != nil {
		o.tell(sub.ID, o.sub)
	}
}

// report tells of another state of the subscription; nil: it is gone.
func (o *one) report(sub *sluice.Subscription) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.tell(o.sub.ID, sub)
}

// endpoint is the world outside: it fails as a script says and remembers what it was sent.
type endpoint struct {
	mu    sync.Mutex
	fails map[string]int           // how many attempts of an event fail; others succeed
	tries map[string]int           // attempts by event
	good  map[string]int           // successes by event
	first map[sluice.Path][]uint64 // sequences in the order of their first attempt
	all   []uint64                 // of all paths
	wait  func()                   // before an answer; nil: it comes at once
	tight bool                     // a request holds few events

	requests []int // how many events each had
}

func newEndpoint() *endpoint {
	return &endpoint{fails: map[string]int{}, tries: map[string]int{}, good: map[string]int{}, first: map[sluice.Path][]uint64{}}
}

func (e *endpoint) Send(_ context.Context, sub *sluice.Subscription, ev *sluice.Event, number int, more ...*sluice.Event) sluice.Attempt {
	if e.wait != nil {
		e.wait()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	a := sluice.Attempt{
		Subscription: sub.ID, EventID: ev.ID, Seq: ev.Seq, Path: ev.Path, Type: ev.Type, Number: number,
		StartedAt: time.Now(), Outcome: sluice.Delivered, Status: 200,
	}
	events := append([]*sluice.Event{ev}, more[:min(len(more), e.fit(ev))]...)
	for _, ev := range events {
		if len(events) > 1 {
			a.Batch = append(a.Batch, sluice.EventRef{EventID: ev.ID, Seq: ev.Seq, Path: ev.Path, Type: ev.Type})
		}
		e.tries[ev.ID]++
		if e.tries[ev.ID] == 1 {
			e.all = append(e.all, ev.Seq)
			e.first[ev.Path] = append(e.first[ev.Path], ev.Seq)
		}
		if e.tries[ev.ID] <= e.fails[ev.ID] {
			a.Outcome, a.Status, a.Error = sluice.Failed, 503, "503"
		}
	}
	e.requests = append(e.requests, len(events))
	if a.Outcome == sluice.Delivered {
		for _, ev := range events {
			e.good[ev.ID]++
		}
	}
	return a
}

// fit returns how many more events a request holds: fewer than there are, now and then.
func (e *endpoint) fit(ev *sluice.Event) int {
	if e.tight {
		return int(ev.Seq % 4)
	}
	return 1000
}

func (e *endpoint) delivered() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.good)
}

// world is a store, a namespace with a subscription, and the endpoint.
type world struct {
	store      storetest.Rooms
	deliveries *deliverystore.Store
	sub        *sluice.Subscription // as it was made
	watch      *one
	endpoint   *endpoint
	ports      func(*delivery.Deps)   // changes what an engine works with; nil: nothing
	beside     *one                   // another subscription that its engine serves; nil: none
	replays    delivery.ReplayWatcher // nil: there are none
	places     int                    // attempts that its engine makes at once, of each kind; 0: as an engine does
	observe    delivery.Observer      // nil: none
	looks      time.Duration          // how often it looks at what waits; 0: as an engine does
	log        *slog.Logger           // of engines; nil: none
	rested     chan struct{}          // receives a value when a runner has no work and ends; nil: none is sent
	total      int                    // events published
	crashes    int
}

func connect(t *testing.T) storetest.Rooms {
	t.Helper()
	return connectTo(t, natstest.New(t))
}

func connectTo(t *testing.T, server *natstest.Server) storetest.Rooms {
	t.Helper()
	store := storetest.Connect(t, natsstore.Options{Conn: server})
	require.NoError(t, store.Provision(t.Context()))
	return store
}

func newWorld(t require.TestingT, store storetest.Rooms, namespace string, policy sluice.Policy) *world {
	_, _, err := store.Namespaces().Put(context.Background(), sluice.Namespace{Name: namespace})
	require.NoError(t, err)
	sub := &sluice.Subscription{
		ID: "s-" + namespace, Namespace: namespace, Mode: sluice.Push, Pattern: "/a/**", Lifecycle: sluice.Lifecycle{State: sluice.Active}, Policy: policy,
		From: sluice.StartAt{Kind: sluice.StartSeq, Seq: 1},
	}
	sub.SetDefaults()
	_, err = store.Subscriptions().Put(context.Background(), sub.ID, sub, 0)
	require.NoError(t, err)
	return &world{store: store, deliveries: store.Deliveries, sub: sub, watch: &one{sub: sub}, endpoint: newEndpoint()}
}

func (w *world) start(t require.TestingT) *process {
	log, err := w.deliveries.AttemptLog()
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	logging, endLog := context.WithCancel(context.WithoutCancel(ctx))
	p := &process{store: w.store, deliveries: w.deliveries, log: log, cancel: cancel, ended: make(chan struct{})}
	ports := delivery.Deps{Sources: p, Log: p, Lanes: p, Healths: p, Events: w.store.Log, Sender: w.endpoint, Registry: p}
	if w.ports != nil {
		w.ports(&ports)
	}
	p.share(&ports, w.rested)
	engine := delivery.New(w, always{}, ports, delivery.Options{LookEvery: w.looks, MaxInFlight: w.places, MaxPrograms: w.places, Observe: w.observe, Log: w.log, Replays: w.replays})
	p.engine = engine
	var parts sync.WaitGroup
	parts.Go(func() { _ = log.Run(logging) })
	go func() {
		defer close(p.ended)
		_ = engine.Run(ctx)
		endLog()
		parts.Wait()
	}()
	return p
}

// Watch tells of the world's subscription and the one beside it.
func (w *world) Watch(ctx context.Context, change func(string, *sluice.Subscription)) error {
	var watching sync.WaitGroup
	defer watching.Wait()
	if w.beside == nil {
		return w.watch.Watch(ctx, change)
	}
	both := make(chan struct{})
	watching.Go(func() { _ = w.beside.watch(ctx, change, func() { close(both) }) })
	return w.watch.watch(ctx, change, func() {
		<-both
		change("", nil)
	})
}

func (w *world) publish(t require.TestingT, path sluice.Path, id string) {
	_, err := w.store.Log.Publish(context.Background(), w.sub.Namespace, []sluice.Event{{
		Path: path, ID: id, Type: "t", Source: "/test", Time: time.Now(), Data: []byte(`{}`),
	}})
	require.NoError(t, err)
}

var quickRetries = sluice.Retry{Preset: sluice.PresetCustom, Steps: []sluice.Duration{sluice.Duration(time.Millisecond)}, MaxAttempts: 100}

// TestEngine_RandomCrashesKeepPathOrder drives random outcomes, crashes and restarts
// against a real store. Nothing acknowledged is lost, first deliveries keep the order of their
// path, and a crash repeats no more than the window.
func TestEngine_RandomCrashesKeepPathOrder(t *testing.T) { // S0-41, S4-17, C01
	t.Parallel()
	store := connect(t)
	checkWithin(t, func(rt *rapid.T, checks int) {
		w := newWorld(rt, store, fmt.Sprintf("n%d", checks), sluice.Policy{Window: 8, Retry: quickRetries})
		w.outlive(rt)
	})
}

// outlive publishes, crashes and restarts at random, and checks that all arrived.
func (w *world) outlive(rt *rapid.T) {
	proc := w.start(rt)
	defer func() { proc.stop() }()
	rt.Repeat(map[string]func(*rapid.T){
		"publish": w.publishSome,
		"crash": func(rt *rapid.T) {
			proc.crash()
			w.crashes++
			proc = w.start(rt)
		},
		"restart": func(rt *rapid.T) {
			proc.stop()
			proc = w.start(rt)
		},
		"settle": w.settle,
	})
	w.settle(rt)
	w.unpark(rt)
	proc.stop()
	w.check(rt)
}

func (w *world) publishSome(rt *rapid.T) {
	for range rapid.IntRange(1, 20).Draw(rt, "events") {
		path := sluice.Path(rapid.SampledFrom([]string{"/a", "/a/1", "/a/2", "/a/b/3"}).Draw(rt, "path"))
		id := fmt.Sprintf("e%d", w.total)
		w.total++
		w.endpoint.mu.Lock()
		w.endpoint.fails[id] = rapid.SampledFrom([]int{0, 0, 0, 0, 1, 3}).Draw(rt, "failures")
		w.endpoint.mu.Unlock()
		w.publish(rt, path, id)
	}
}

func (w *world) settle(rt *rapid.T) {
	require.Eventually(rt, func() bool { return w.endpoint.delivered() == w.total }, 2*deadHandsBack, 2*time.Millisecond, "all arrive")
}

func (w *world) check(rt *rapid.T) {
	twice := 0
	for _, n := range w.endpoint.good {
		twice += n - 1
	}
	require.LessOrEqual(rt, twice, w.crashes*2*w.sub.Policy.MaxPending(), "the window of each of the two consumers")
	if w.sub.Policy.Ordering == sluice.OrderNone {
		return
	}
	for path, order := range w.endpoint.first {
		require.IsIncreasing(rt, order, path)
	}
}

func (w *world) unpark(rt *rapid.T) {
	require.Eventually(rt, func() bool {
		parked, err := w.deliveries.Parked(context.Background(), w.sub)
		return err == nil && len(parked) == 0
	}, time.Minute, time.Millisecond, "no lane stays parked")
}
