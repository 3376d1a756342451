package records_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/authz"
	"github.com/sluice-io/sluice/internal/catalogue"
	"github.com/sluice-io/sluice/internal/ingest"
	"github.com/sluice-io/sluice/internal/ledger"
	"github.com/sluice-io/sluice/internal/loopguard"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/natsstore/records"
	"github.com/sluice-io/sluice/internal/quota"
	"github.com/sluice-io/sluice/internal/schedule/action"
	"github.com/sluice-io/sluice/internal/testkit/faulttest"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/internal/testkit/storetest"
	"github.com/sluice-io/sluice/internal/watch"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// watchNode is an engine that looks after the watches of a namespace.
type watchNode struct {
	ns     string
	cancel context.CancelFunc
	ended  chan struct{}
}

func (n *watchNode) stop() {
	n.cancel()
	<-n.ended
}

// Owns says that this node looks after the watches of its namespace.
func (n *watchNode) Owns(key string) bool { return strings.HasPrefix(key, n.ns+".") }

// Run says so once.
func (*watchNode) Run(ctx context.Context, changed func() <-chan struct{}) error {
	changed()
	<-ctx.Done()
	return nil
}

// openGate lets every principal read everything.
type openGate struct{}

func (openGate) Shows(sluice.Creator, *sluice.Event) model.Decision { return model.Pass }
func (openGate) Applied() (uint64, <-chan struct{})                 { return 0, nil }

// watchNodeOn starts an engine on a store.
func watchNodeOn(t *testing.T, store storetest.Rooms, ns string, opts watch.Options) *watchNode {
	t.Helper()
	n := &watchNode{ns: ns, ended: make(chan struct{})}
	marks := records.NewMarks(store.Store, ledger.New(store.Ledger(), nil))
	guard, err := loopguard.New(store.Log, marks, loopguard.Options{})
	require.NoError(t, err)
	perform := action.New(action.Deps{Access: authz.NewIndex(), Now: time.Now, Ingest: ingest.New(ingest.Deps{
		Publisher: ingest.Remembered{Publisher: store.Log, Guard: guard}, Access: authz.NewIndex(), Catalogue: catalogue.New(), Causes: loopguard.Reactions{Guard: guard}, Quota: quota.NewQuotas(),
	})})
	watches := records.NewWatches(store.Store)
	engine := watch.New(watch.Deps{
		Definitions: watches, Records: watches.Progress, Log: records.NewWatchLog(store.Log), Gate: openGate{}, Perform: action.Watched{Performer: perform}, Owns: n,
	}, opts)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	n.cancel = cancel
	go func() {
		defer close(n.ended)
		_ = engine.Run(ctx) // it ends with ctx
	}()
	return n
}

// watchSite is a namespace with a watch.
type watchSite struct {
	t     *testing.T
	store storetest.Rooms // of processes that are no nodes
	ns    string
	watch sluice.Watch
}

func openWatchSite(t *testing.T, store storetest.Rooms, ns sluice.Namespace, change ...func(*sluice.Watch)) *watchSite {
	t.Helper()
	_, _, err := store.Namespaces().Put(t.Context(), ns)
	require.NoError(t, err)
	w := sluice.Watch{
		ID: "hot", Namespace: ns.Name, Pattern: "/sensors/*", Filter: sluice.Filter{CEL: "event.data > 30"}, Trigger: sluice.TriggerEdge,
		Action: sluice.Action{Path: "/alarms/hot", Type: "alarm"}, Creator: sluice.Creator{CreatedBy: sluice.Root, CreatedAt: time.Now()},
	}
	for _, f := range change {
		f(&w)
	}
	s := &watchSite{t: t, store: store, ns: ns.Name}
	w.Revision, err = records.NewWatches(store.Store).Put(t.Context(), w.Namespace, w.ID, watch.Stored{Watch: w}, 0)
	require.NoError(t, err)
	s.watch = w
	return s
}

// read publishes readings of a sensor, and returns the ids of what the watch is to publish because of them.
func (s *watchSite) read(path sluice.Path, values ...int) (ids []string) {
	s.t.Helper()
	was := 0
	for _, v := range values {
		stored, err := s.store.Log.Publish(s.t.Context(), s.ns, []sluice.Event{{
			ID: fmt.Sprintf("%s-%d-%d", path[1:], v, time.Now().UnixNano()), Namespace: s.ns, Path: path, Type: "reading", Source: "/test", Data: fmt.Append(nil, v),
		}})
		require.NoError(s.t, err)
		if v > 30 && was <= 30 {
			ids = append(ids, s.alarm(stored[0].Seq))
		}
		was = v
	}
	return ids
}

// alarm returns the id of what the watch publishes because of a reading.
func (s *watchSite) alarm(seq uint64) string {
	s.t.Helper()
	name := fmt.Sprintf("watch-%s-%d-%d", s.watch.ID, s.watch.Revision, seq)
	secret, err := s.store.Log.Secret(s.ns + " " + name)
	require.NoError(s.t, err)
	return name + "-" + secret[:32]
}

// on returns the events on a path, in their order.
func (s *watchSite) on(path sluice.Path) []sluice.Event {
	s.t.Helper()
	page, err := s.store.Log.Events(s.t.Context(), s.ns, model.EventQuery{Pattern: sluice.Pattern(path), Limit: 1000})
	require.NoError(s.t, err)
	return page.Events
}

func idsOn(events []sluice.Event) []string {
	ids := make([]string, len(events))
	for i := range events {
		ids[i] = events[i].ID
	}
	return ids
}

// fired returns the ids of the events whose publication was told of, and the outcomes.
func (s *watchSite) fired() (ids, outcomes []string) {
	for _, ev := range s.on(sluice.WatchPath(s.watch.ID)) {
		var data struct {
			EventID string `json:"event_id"`
			Outcome string `json:"dispatch_outcome"`
		}
		require.NoError(s.t, json.Unmarshal(ev.Data, &data))
		if ev.Type == sluice.TypeWatchFired {
			ids, outcomes = append(ids, data.EventID), append(outcomes, data.Outcome)
		}
	}
	return ids, outcomes
}

// settled waits until the watch has published, and told of, so many events.
func (s *watchSite) settled(n int) {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		ids, _ := s.fired()
		return len(s.on("/alarms/hot")) >= n && len(ids) >= n
	}, watchPatience, 5*time.Millisecond)
}

// watchPatience is how long these tests wait for what comes, on a machine that has much else to do.
const watchPatience = 2 * time.Minute

// watchPoint is a moment of a process: right before, or right after, the write of that number of its kind.
type watchPoint struct {
	kind   string
	number int
	after  bool
	late   bool // who takes over comes when the ids of what was published are forgotten
}

// watchVictim is a process that dies at a point.
type watchVictim struct {
	*watchNode

	ns     string
	wire   *faulttest.Wire
	store  storetest.Rooms
	at     watchPoint
	killed chan struct{}
	dead   atomic.Bool

	mu   sync.Mutex
	seen map[string]int
}

// see counts a write, and ends the process if it is the one. It reports whether the write is made.
func (v *watchVictim) see(said []byte) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.dead.Load() {
		return false
	}
	kind := v.write(said)
	v.seen[kind]++
	if kind == "" || kind != v.at.kind || v.seen[kind] != v.at.number {
		return true
	}
	v.dead.Store(true)
	close(v.killed)
	if !v.at.after {
		go v.wire.HangUp()
	}
	return v.at.after
}

// write returns what kind of write a command to NATS is, "" if it changes nothing of the namespace.
func (v *watchVictim) write(said []byte) string {
	return faulttest.KindOf(said, []faulttest.Kind{
		{"record", "$KV." + streams.Watches + "." + v.ns + ".", ""},
		{"action", "events." + v.ns + ".alarms", ""},
		{"told", "events." + v.ns + "._sys.watches", ""},
	})
}

// watchDeath is what came of one death.
type watchDeath struct {
	reached bool
	wrong   string
	writes  map[string]int
}

// die lets a watch fire six times in a process that dies at a point, and then in another one.
func die(t *testing.T, server *natstest.Server, store storetest.Rooms, ns string, at watchPoint) (d watchDeath) {
	t.Helper()
	const dedup = sluice.Duration(time.Second)
	site := openWatchSite(t, store, sluice.Namespace{Name: ns, DedupWindow: dedup})
	v := &watchVictim{ns: ns, at: at, killed: make(chan struct{}), seen: map[string]int{}}
	v.wire = faulttest.OpenWire(t, strings.TrimPrefix(server.ClientURL(), "nats://"), v.see)
	v.store = storetest.Connect(t, natsstore.Options{URL: "nats://" + v.wire.Addr()})
	require.NoError(t, v.store.Provision(t.Context()))
	v.watchNode = watchNodeOn(t, v.store, ns, watch.Options{Every: 20 * time.Millisecond})
	next := func() *watchNode { return watchNodeOn(t, store, ns, watch.Options{Every: 20 * time.Millisecond}) }
	var heirs []*watchNode
	want := site.read("/sensors/1", 12, 31, 32, 7)
	for _, more := range [][]int{{40, 9, 50, 8}, {60, 61, 1, 70}, {2, 80}} {
		want = append(want, site.read("/sensors/1", more...)...)
		require.Eventually(t, func() bool { return v.dead.Load() || len(site.on("/alarms/hot")) >= len(want) }, watchPatience, 2*time.Millisecond)
		if v.dead.Load() && len(heirs) == 0 {
			v.bury()
			if at.late {
				site.forgotten()
			}
			heirs = append(heirs, next())
		}
	}
	if len(heirs) == 0 {
		site.settled(len(want))
		heirs = append(heirs, next()) // both look after it
	}
	site.settled(len(want))
	heirs[0].stop()
	select {
	case <-v.killed:
		d.reached = true
	default:
	}
	v.bury()
	d.wrong, d.writes = site.judge(want), v.seen
	delete(d.writes, "")
	return d
}

// bury ends what is left of a process.
func (v *watchVictim) bury() {
	v.wire.HangUp()
	v.wire.Wait()
	v.store.Close()
	v.stop()
}

// forgotten waits until the ids of all that was published are not known any more.
func (s *watchSite) forgotten() {
	s.t.Helper()
	_, last, err := s.store.Log.Bounds(s.t.Context(), s.ns)
	require.NoError(s.t, err)
	ev, err := s.store.Log.Event(s.t.Context(), s.ns, last)
	require.NoError(s.t, err)
	require.Eventually(s.t, func() bool {
		_, err := s.store.Log.RecentByID(s.t.Context(), s.ns, ev.ID)
		return sluice.CodeOf(err) == sluice.NotFound
	}, watchPatience, 20*time.Millisecond)
}

// judge says what is wrong with what a watch has done: "" if it is what it should, each once.
func (s *watchSite) judge(want []string) string {
	var wrong []string
	if got := idsOn(s.on("/alarms/hot")); !slices.Equal(got, want) {
		wrong = append(wrong, fmt.Sprintf("published %v, not %v", got, want))
	}
	told, outcomes := s.fired()
	if !slices.Equal(told, want) {
		wrong = append(wrong, fmt.Sprintf("told of %v, not %v", told, want))
	}
	if slices.ContainsFunc(outcomes, func(o string) bool { return o != sluice.OutcomeOK }) {
		wrong = append(wrong, fmt.Sprintf("outcomes %v", outcomes))
	}
	return strings.Join(wrong, "; ")
}

// watchPoints returns every point of a run with so many writes; where it is short, the first of each kind.
func watchPoints(writes map[string]int) (all []watchPoint) {
	for _, kind := range slices.Sorted(maps.Keys(writes)) {
		most := writes[kind]
		if !faulttest.Long() {
			most = min(most, 3)
		}
		for n := 1; n <= most; n++ {
			for _, after := range []bool{false, true} {
				all = append(all, watchPoint{kind: kind, number: n, after: after, late: n%3 == 1})
			}
		}
	}
	return all
}

// dyingAt is a run in which the owner of a watch dies at a point, or lives if that has no kind.
type dyingAt func(t *testing.T, server *natstest.Server, store storetest.Rooms, ns string, at watchPoint) watchDeath

// dieEverywhere has the owner of a watch die right before and right after each write, of which a run in peace has three kinds.
func dieEverywhere(t *testing.T, dies dyingAt) {
	t.Helper()
	server := natstest.Listening(t)
	store := storeOn(t, server)
	peace := dies(t, server, store, "peace", watchPoint{})
	require.Empty(t, peace.wrong)
	require.Len(t, peace.writes, 3, "%v", peace.writes)
	todo := watchPoints(peace.writes)
	var next, reached atomic.Int64
	var workers sync.WaitGroup
	wrong := make([]string, len(todo))
	for range 4 {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(todo); i = int(next.Add(1)) - 1 {
				d := dies(t, server, store, fmt.Sprintf("n%d", i), todo[i])
				if wrong[i] = d.wrong; d.reached {
					reached.Add(1)
				}
			}
		})
	}
	workers.Wait()
	for i := range todo {
		require.Empty(t, wrong[i], "%+v", todo[i])
	}
	t.Logf("%d deaths at %d points", reached.Load(), len(todo))
	require.Greater(t, int(reached.Load()), len(todo)/2)
}

// Who looks after a watch may die right before and right after any write: each firing is published once and told of once,
// though who comes next comes after the ids are forgotten.
func TestWatch_SurvivesDeathBetweenAnyTwoWrites(t *testing.T) { // S2-42, S2-43
	t.Parallel()
	dieEverywhere(t, die)
}
