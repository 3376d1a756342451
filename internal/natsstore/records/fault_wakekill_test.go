package records_test

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

	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/testkit/faulttest"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/internal/testkit/storetest"
	"github.com/sluice-io/sluice/internal/wake"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// wakeWrites are the kinds of commands to NATS that change something that lasts.
func wakeWrites() []faulttest.Kind {
	return []faulttest.Kind{
		{"record", "$KV." + streams.Wakes + ".", ""},
		{"attempt", "attempts.", ""},
		{"ack", "$JS.ACK.", "+ACK"},
		{"requeue", "$JS.ACK.", "-NAK"},
		{"consumer", "$JS.API.CONSUMER.", `"durable_name"`},
	}
}

// wakePoint is a moment of a process: right before, or right after, the write of that number of its kind; or at a fault
// point of the engine, which lies between writes.
type wakePoint struct {
	kind   string
	number int
	after  bool

	elsewhere bool // callbacks come to another process, which does not serve the subscription, and does not die
}

// wakeVictim is a process that dies at a point.
type wakeVictim struct {
	*wakeNode

	wire   *faulttest.Wire
	at     wakePoint
	killed chan struct{}

	mu   sync.Mutex
	seen map[string]int
}

// see counts a write, and ends the process if it is the one. It reports whether the write is made.
func (v *wakeVictim) see(said []byte) bool { return v.count(faulttest.KindOf(said, wakeWrites())) }

func (v *wakeVictim) count(kind string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.dead.Load() {
		return false
	}
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

// wakeKiller lets the scenario run, again and again, on a server of its own.
type wakeKiller struct {
	t     *testing.T
	name  string
	nats  *natstest.Server
	store storetest.Rooms
	runs  int
	ends  *sync.WaitGroup
}

// start starts a process that dies at a point.
func (k *wakeKiller) start(site *wakeSite, at wakePoint) *wakeVictim {
	v := &wakeVictim{at: at, seen: map[string]int{}, killed: make(chan struct{}), wakeNode: &wakeNode{}}
	v.wire = faulttest.OpenWire(k.t, strings.TrimPrefix(k.nats.ClientURL(), "nats://"), v.see)
	store := storetest.Connect(k.t, natsstore.Options{URL: "nats://" + v.wire.Addr()})
	node, err := site.node(store, true, func(ports *wake.Deps, opts *wake.Options) {
		ports.Poster = mortalPoster{v}
		opts.Fault = func(point string) { v.count("at " + point) }
	})
	require.NoError(k.t, err)
	v.site, v.store, v.engine, v.cancel, v.ended, v.endLog = node.site, node.store, node.engine, node.cancel, node.ended, node.endLog
	return v
}

// mortalPoster sends nothing once its process is dead.
type mortalPoster struct{ victim *wakeVictim }

// Post is that of the process.
func (p mortalPoster) Post(ctx context.Context, sub *sluice.Subscription, l wake.Letter) (sluice.Attempt, []byte) {
	return p.victim.Post(ctx, sub, l)
}

// bury ends what is left of a process, and returns when NATS knows that it is gone.
func (k *wakeKiller) bury(v *wakeVictim) {
	v.wire.HangUp()
	v.wire.Wait()
	k.ends.Go(func() {
		v.endLog()
		v.store.Close()
		v.stop()
	})
}

// wakeDeath is what came of one death.
type wakeDeath struct {
	reached bool
	events  int
	lost    int
	wrong   []string
	writes  map[string]int
}

// try lets the scenario run, kills the process at the point, and starts another one.
func (k *wakeKiller) try(at wakePoint) (d wakeDeath) {
	k.runs++
	site := openSite(k.t, k.store, fmt.Sprintf("%s%d", k.name, k.runs), sluice.Policy{
		Retry: sluice.Retry{Preset: sluice.PresetCustom, Steps: []sluice.Duration{sluice.Duration(time.Millisecond)}, MaxAttempts: 3},
	}, 1)
	var front atomic.Pointer[wakeNode]
	worker := newWakeWorker(site, front.Load)
	v := k.start(site, at)
	front.Store(v.wakeNode)
	var others []*wakeNode
	other := func(owns bool) {
		n, err := site.node(k.store, owns, nil)
		require.NoError(k.t, err)
		others = append(others, n)
		front.Store(n)
	}
	if at.elsewhere {
		other(false)
	}
	over := make(chan struct{})
	var undertaker sync.WaitGroup
	undertaker.Go(func() {
		select {
		case <-v.killed:
			d.reached = true
			k.bury(v)
			other(true)
		case <-over:
		}
	})
	worker.play()
	close(over)
	undertaker.Wait()
	if !d.reached {
		v.stop() // its last writes are points as well
		select {
		case <-v.killed:
			d.reached = true
		default:
		}
		k.bury(v)
	}
	for _, n := range others {
		n.stop()
	}
	d.lost = worker.judge()
	d.wrong = worker.wrong
	for _, seqs := range worker.appended {
		d.events += len(seqs)
	}
	delete(v.seen, "")
	d.writes = v.seen
	return d
}

// wakePoints returns every point of a run with so many writes; where it is short, only the first and some of the later ones.
func wakePoints(writes map[string]int, like wakePoint) (all []wakePoint) {
	for _, kind := range slices.Sorted(maps.Keys(writes)) {
		for n := 1; n <= writes[kind]; n++ {
			if !faulttest.Long() && n%16 != 1 {
				continue
			}
			like.kind, like.number, like.after = kind, n, false
			all = append(all, like)
			if !strings.HasPrefix(kind, "at ") {
				like.after = true
				all = append(all, like)
			}
		}
	}
	return all
}

// visit lets processes die at all the points, several at a time.
func visit(todo []wakePoint, killers []*wakeKiller) []wakeDeath {
	deaths := make([]wakeDeath, len(todo))
	var next atomic.Int64
	var workers sync.WaitGroup
	for _, k := range killers {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(todo); i = int(next.Add(1)) - 1 {
				deaths[i] = k.try(todo[i])
			}
		})
	}
	workers.Wait()
	return deaths
}

// The bar of wakes: the process that wakes may die right before and right after any write of a cycle, and between what it does
// otherwise: of a first wake, a retry, an answer, a claim, an acknowledgement, another stream, a callback that is done, an
// answer that is, a removal and a return. Another one takes over. Every event is told of by a notice that lies before it, epochs
// go up, an epoch has one wake, and no worker claims another one of it.
func TestWake_SurvivesDeathBetweenAnyTwoWrites(t *testing.T) { // S1-38, S1-128, S1-129, S4-17
	t.Parallel()
	watch := faulttest.Begin(t, "kill-wake")
	var ends sync.WaitGroup
	defer ends.Wait()
	var killers []*wakeKiller
	for i := range 4 {
		server := natstest.Listening(t)
		killers = append(killers, &wakeKiller{t: t, name: fmt.Sprintf("k%d-", i), nats: server, store: storeOn(t, server), ends: &ends})
	}
	var sum faulttest.Arrived
	var wrong []string
	points, visited := 0, 0
	for _, like := range []wakePoint{{}, {elsewhere: true}} {
		peace := killers[0].try(like)
		require.Empty(t, peace.wrong)
		require.Zero(t, peace.lost)
		todo := wakePoints(peace.writes, like)
		t.Logf("callbacks elsewhere: %v; %v", like.elsewhere, peace.writes)
		reached := map[string]bool{}
		for i, d := range visit(todo, killers) {
			points++
			sum.Events, sum.Lost = sum.Events+d.events, sum.Lost+d.lost
			if d.reached {
				visited++
				reached[todo[i].kind] = true
			}
			if len(d.wrong) > 0 || d.lost > 0 {
				wrong = append(wrong, fmt.Sprintf("%+v: lost %d; %s", todo[i], d.lost, strings.Join(d.wrong, "; ")))
			}
		}
		require.Len(t, reached, len(peace.writes), "processes died at each kind of point: %v", reached)
	}
	require.Empty(t, wrong, strings.Join(wrong, "\n"))
	watch.End(sum, fmt.Sprintf("%d deaths at %d points of a scenario of 12 notices; the memory is that of the test's many servers", visited, points))
}
