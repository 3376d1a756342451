package delivery_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/delivery"
	outbound "github.com/sluice-io/sluice/internal/endpoint"
	"github.com/sluice-io/sluice/internal/ledger"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/natsstore/deliverystore"
	"github.com/sluice-io/sluice/internal/subscription"
	"github.com/sluice-io/sluice/internal/sysevent"
	"github.com/sluice-io/sluice/internal/testkit/hooktest"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/internal/testkit/storetest"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// turnstile is a gate that says what the test wants.
type turnstile struct {
	mu    sync.Mutex
	say   func(sub *sluice.Subscription, ev *sluice.Event) model.Decision
	asked []string // event ids
}

func answering(d model.Decision) func(*sluice.Subscription, *sluice.Event) model.Decision {
	return func(*sluice.Subscription, *sluice.Event) model.Decision { return d }
}

func newTurnstile(d model.Decision) *turnstile { return &turnstile{say: answering(d)} }

func (g *turnstile) Decide(sub *sluice.Subscription, ev *sluice.Event, _ time.Time) model.Decision {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asked = append(g.asked, ev.ID)
	return g.say(sub, ev)
}

func (g *turnstile) set(d model.Decision) { g.script(answering(d)) }

func (g *turnstile) script(say func(*sluice.Subscription, *sluice.Event) model.Decision) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.say = say
}

func (g *turnstile) times() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.asked)
}

// gated is a subscription with an owner that may lose its access: a real registry, ledger and
// log, and an endpoint that keeps every byte.
type gated struct {
	t          *testing.T
	server     *natstest.Server
	store      storetest.Rooms
	deliveries *deliverystore.Store
	sub        *sluice.Subscription
	hook       *hooktest.Server
	tap        *hooktest.Tap
	gate       *turnstile
	see        *watcher

	engines []*delivery.Engine
	ports   func(*delivery.Deps) // changes those of an engine; nil: none
}

// word is in the data of each event, and in nothing else. It and the ids below are long: tests look for them in the raw
// bytes of requests, where signatures and trace ids hold any text of two or three characters now and then.
const word = "nobody-else-may-read-this"

const (
	waiting   = "waits-behind-one-that-fails"    // the id of an event that is never sent
	later     = "published-after-access-is-lost" // the id of an event that is never sent
	forbidden = "forbidden-by-the-gate-"         // what the ids of events that the gate withholds begin with
)

func newGated(t *testing.T, policy sluice.Policy, answer func(hooktest.Request) hooktest.Answer, change ...func(*sluice.Subscription)) *gated {
	t.Helper()
	g := &gated{t: t, server: natstest.New(t), gate: newTurnstile(model.Pass), see: &watcher{}}
	g.store = connectTo(t, g.server)
	g.deliveries = g.store.Deliveries
	_, _, err := g.store.Namespaces().Put(t.Context(), sluice.Namespace{Name: "n"})
	require.NoError(t, err)
	g.hook, g.tap = hooktest.NewTapped(t, answer)
	secret, err := sluice.NewSecret()
	require.NoError(t, err)
	g.sub = &sluice.Subscription{
		ID: "s", Namespace: "n", Mode: sluice.Push, Pattern: "/a/**", Lifecycle: sluice.Lifecycle{State: sluice.Active, Grant: "g", CreatedAt: time.Now().UTC()}, Enabled: true, Policy: policy,
		Endpoint: sluice.Endpoint{URL: g.hook.URL}, Secrets: []sluice.Secret{{Value: secret}},
		From: sluice.StartAt{Kind: sluice.StartSeq, Seq: 1},
	}
	for _, f := range change {
		f(g.sub)
	}
	g.sub.SetDefaults()
	g.sub.Revision, err = g.store.Subscriptions().Put(t.Context(), g.sub.ID, g.sub, 0)
	require.NoError(t, err)
	return g
}

// allSubscriptions tells of the subscriptions as they are stored.
type allSubscriptions struct{ store storetest.Rooms }

func (a allSubscriptions) Watch(ctx context.Context, change func(id string, sub *sluice.Subscription)) error {
	return a.store.Subscriptions().Watch(ctx, func(e natsstore.Entry[*sluice.Subscription]) {
		switch e.Change {
		case natsstore.Set:
			change(e.Key, e.Value)
		case natsstore.Removed:
			change(e.Key, nil)
		case natsstore.CaughtUp:
		}
	})
}

// storedSources opens sources of a store.
type storedSources struct{ *deliverystore.Store }

func (s storedSources) Open(ctx context.Context, sub *sluice.Subscription) (delivery.Source, error) {
	return s.OpenSource(ctx, sub)
}

// storedConsumers makes and removes consumers of a store.
type storedConsumers struct{ *deliverystore.Store }

func (c storedConsumers) Ensure(ctx context.Context, sub *sluice.Subscription) error {
	return c.EnsureConsumers(ctx, sub)
}

func (c storedConsumers) Remove(ctx context.Context, sub *sluice.Subscription) error {
	return errors.Join(c.RemoveConsumers(ctx, sub), c.ForgetLanes(ctx, sub.ID))
}

// start starts an engine over the world's store, or as a replica with one of its own.
func (g *gated) start() (stop func()) { return g.startOver(g.store, always{}) }

func (g *gated) startReplica(name string) (stop func()) {
	store := connectTo(g.t, g.server)
	leases, err := store.Leases(g.t.Context(), name, nil)
	require.NoError(g.t, err)
	return g.startOver(store, leases)
}

func (g *gated) startOver(store storetest.Rooms, owns delivery.Ownership) (stop func()) {
	g.t.Helper()
	deliveries := store.Deliveries
	log, err := deliveries.AttemptLog()
	require.NoError(g.t, err)
	sender := outbound.New(outbound.Options{AllowLoopback: true})
	reg := subscription.New(subscription.Deps{
		Subscriptions: store.Subscriptions(), Reservations: natsstore.OpenBucket[subscription.Reservation](store.Store, streams.Reservations),
		Logs: store.Log, Endpoints: sender, Consumers: storedConsumers{deliveries}, Replays: deliveries.Replays(), ReplayLogs: store.Log,
		Ledger: ledger.New(store.Ledger(), slog.New(slog.DiscardHandler)), Announce: sysevent.New(store.Log, sysevent.Options{}), Now: time.Now,
	})
	replays := watchReplays{deliveries.Replays(), g.sub.ID}
	deps := delivery.Deps{
		Sources: storedSources{deliveries}, Log: log, Lanes: deliveries, Healths: deliveries, Events: store.Log, Sender: sender, Gate: g.gate,
		Registry: reg, Replays: replays, Letters: deliveries,
	}
	if g.ports != nil {
		g.ports(&deps)
	}
	engine := delivery.New(allSubscriptions{store}, owns, deps, delivery.Options{Replays: replays, Observe: g.see})
	g.engines = append(g.engines, engine)
	ctx, cancel := context.WithCancel(context.Background())
	logging, endLog := context.WithCancel(context.WithoutCancel(ctx))
	var parts sync.WaitGroup
	parts.Go(func() { _ = log.Run(logging) })
	parts.Go(func() {
		_ = engine.Run(ctx)
		endLog()
	})
	stop = sync.OnceFunc(func() {
		cancel()
		parts.Wait()
		sender.Close()
	})
	g.t.Cleanup(stop)
	return stop
}

func (g *gated) publish(path sluice.Path, ids ...string) {
	g.t.Helper()
	for _, id := range ids {
		g.publishData(path, id, `"`+word+`"`)
	}
}

func (g *gated) publishData(path sluice.Path, id, data string) {
	g.t.Helper()
	_, err := g.store.Log.Publish(context.Background(), "n", []sluice.Event{{
		Path: path, ID: id, Type: "t", Source: "/test", Time: time.Now(), Data: []byte(data),
	}})
	require.NoError(g.t, err)
}

// caused publishes an event that names a cause.
func (g *gated) caused(path sluice.Path, id string) {
	g.t.Helper()
	_, err := g.store.Log.Publish(context.Background(), "n", []sluice.Event{{
		Path: path, ID: id, Type: "t", Source: "/test", Time: time.Now(), Data: []byte(`"` + word + `"`), Extensions: map[string]string{sluice.CausationID: "c"},
	}})
	require.NoError(g.t, err)
}

func (g *gated) eventually(what string, f func() bool) {
	g.t.Helper()
	require.Eventually(g.t, f, time.Minute, 2*time.Millisecond, what)
}

func (g *gated) parked(n int) {
	g.t.Helper()
	g.eventually("lanes are parked", func() bool {
		all, err := g.deliveries.Parked(g.t.Context(), g.sub)
		return err == nil && len(all) == n
	})
}

// revoke takes the access away and returns how many bytes had come when that was acknowledged.
func (g *gated) revoke() int {
	g.t.Helper()
	g.gate.set(model.Lost)
	g.withdraw()
	return g.tap.Len()
}

func (g *gated) withdraw() {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(g.t.Context(), time.Minute)
	defer cancel()
	for _, e := range g.engines {
		require.NoError(g.t, e.Withdraw(ctx, func(sub *sluice.Subscription) bool { return sub.Grant == "g" }))
	}
}

// attempts returns the recorded attempts.
func (g *gated) attempts() []sluice.Attempt {
	g.t.Helper()
	page, _, err := g.deliveries.Attempts(g.t.Context(), g.sub, model.HistoryQuery{Limit: 1000})
	require.NoError(g.t, err)
	var all []sluice.Attempt
	for _, p := range page {
		all = append(all, p.Value)
	}
	return once(all)
}

// requireEnded requires that the subscription is cancelled once, that this is accounted for and
// told once, and that nothing came of it otherwise, nor of what is published now.
func (g *gated) requireEnded() {
	t := g.t
	t.Helper()
	g.publish("/a/later", later)
	var sub *sluice.Subscription
	g.eventually("it is cancelled", func() bool {
		stored, _, err := g.store.Subscriptions().Get(t.Context(), g.sub.ID)
		sub = stored
		return err == nil && stored.State == sluice.Cancelled
	})
	require.Equal(t, "access_revoked", sub.Reason)
	told := func() (found []sluice.Event) {
		page, err := g.store.Log.Events(t.Context(), "n", model.EventQuery{Pattern: "/_sys/**", Limit: 1000})
		require.NoError(t, err)
		return page.Events
	}
	g.eventually("it is told", func() bool { return len(told()) > 0 })
	within(300*time.Millisecond, func() bool { return false }) // what else would come has come
	events := told()
	require.Len(t, events, 1)
	require.Equal(t, "subscription_cancelled_access_revoked", events[0].Type)
	require.Equal(t, sluice.Path("/_sys/subscriptions/s"), events[0].Path)
	require.NotContains(t, string(events[0].Data), word)

	entries, _, err := g.store.Ledger().Entries(t.Context(), model.LedgerQuery{Limit: 1000})
	require.NoError(t, err)
	require.Len(t, entries, 1)
	e := entries[0]
	require.Equal(t, []any{"system", "subscription.cancel", sluice.ChangeDone}, []any{e.Actor, e.Action, e.Outcome})
	require.Contains(t, string(e.New), "access_revoked")
	letters, err := g.deliveries.DeadLetters(t.Context(), g.sub, 1, 1<<62, 1000)
	require.NoError(t, err)
	require.Empty(t, letters)
}

// requireSilent requires that not one byte came after so many.
func (g *gated) requireSilent(bytes int) {
	g.t.Helper()
	require.Equal(g.t, bytes, g.tap.Len(), "bytes came after the revocation")
	require.NotContains(g.t, g.tap.Text(), later)
}

// What was cut off although access was not lost is sent after all, and was no attempt.
func TestWithdraw_NeedlessCutOffIsSentAgain(t *testing.T) { // C43
	t.Parallel()
	g := newGated(t, sluice.Policy{Window: 4, Timeout: sluice.Duration(time.Minute)}, func(r hooktest.Request) hooktest.Answer {
		return hooktest.Answer{Hang: r.Number == 1}
	})
	g.start()
	g.publish("/a/1", "e1", "e2")
	g.hook.Wait(1)
	g.withdraw()
	g.eventually("all arrive", func() bool { return len(g.attempts()) == 2 })
	for _, a := range g.attempts() {
		require.Equal(t, []any{1, sluice.Delivered}, []any{a.Number, a.Outcome})
	}
	require.Len(t, g.hook.Requests(), 3)
}

// While it is not known whether access was lost nothing is sent and nothing is used up, and others
// are not disturbed.
func TestGate_UndecidedEventWaits(t *testing.T) { // S0-60, S0-62
	t.Parallel()
	store := connect(t)
	w := newWorld(t, store, "waits", sluice.Policy{Window: 4, Retry: quickRetries})
	other := newWorld(t, store, "other", sluice.Policy{Window: 4, Retry: quickRetries})
	gate := newTurnstile(model.Pass)
	gate.script(func(sub *sluice.Subscription, _ *sluice.Event) model.Decision {
		if sub.ID == w.sub.ID {
			return model.Undecided
		}
		return model.Pass
	})
	w.beside = other.watch
	w.ports = func(p *delivery.Deps) { p.Gate = gate }
	proc := w.start(t)
	defer func() { proc.stop() }()
	w.endpoint.fails["e1"] = 1
	for _, id := range []string{"e1", "e2", "e3"} {
		w.publish(t, "/a/1", id)
	}
	w.publish(t, "/a/2", "e4")
	for range 20 {
		other.publish(t, "/a", "o"+time.Now().String())
	}
	eventually(t, "the others arrive", func() bool { return w.endpoint.delivered() == 20 })
	eventually(t, "it was asked again", func() bool { return gate.times() > 20+4 })
	require.Empty(t, w.attempts(t))
	proc.stop()
	proc = w.start(t)
	gate.set(model.Pass)
	eventually(t, "all arrive", func() bool { return w.endpoint.delivered() == 24 && len(w.attempts(t)) == 5 })
	require.IsIncreasing(t, w.endpoint.first["/a/1"])
	numbers := map[string]int{}
	for _, a := range w.attempts(t) {
		numbers[a.EventID] = max(numbers[a.EventID], a.Number)
	}
	require.Equal(t, map[string]int{"e1": 2, "e2": 1, "e3": 1, "e4": 1}, numbers)
}
