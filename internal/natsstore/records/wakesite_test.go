package records_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/authz"
	"github.com/sluice-io/sluice/internal/durable"
	"github.com/sluice-io/sluice/internal/durable/tails"
	"github.com/sluice-io/sluice/internal/keyring"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/natsstore/deliverystore"
	"github.com/sluice-io/sluice/internal/natsstore/records"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/internal/testkit/storetest"
	"github.com/sluice-io/sluice/internal/wake"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// wakeSite is a namespace with a subscription of mode wake, and whom it wakes.
type wakeSite struct {
	store   storetest.Rooms // of processes that are no nodes
	sub     *sluice.Subscription
	keys    *keyring.MAC
	streams tails.Wakes
	post    func(l wake.Letter) (status int, body string)
}

// openSite makes a subscription on a store, which begins at a sequence.
func openSite(t *testing.T, store storetest.Rooms, namespace string, policy sluice.Policy, from uint64) *wakeSite {
	t.Helper()
	if _, _, err := store.Namespaces().Put(t.Context(), sluice.Namespace{Name: namespace}); err != nil {
		require.NoError(t, err)
	}
	sub := &sluice.Subscription{
		Lifecycle: sluice.Lifecycle{CreatedBy: string(sluice.Root), State: sluice.Active, CreatedAt: time.Now().UTC()},
		ID:        "w-" + namespace, Namespace: namespace, Mode: sluice.Wake, Pattern: "/a/*", Policy: policy,
		From: sluice.StartAt{Kind: sluice.StartSeq, Seq: from},
	}
	sub.SetDefaults()
	_, err := store.Subscriptions().Put(t.Context(), sub.ID, sub, 0)
	require.NoError(t, err)
	keys, err := store.Keys().For(t.Context(), sluice.UseWake)
	require.NoError(t, err)
	s := &wakeSite{store: store, sub: sub, keys: &keyring.MAC{}, streams: streamsOn(store)}
	s.keys.Set(keys)
	return s
}

func streamsOn(store storetest.Rooms) tails.Wakes {
	return tails.Wakes{Log: store.Log, Engine: durable.New(records.Paths{Log: store.Log}, time.Now), Index: authz.NewIndex()}
}

func storeOn(t *testing.T, server *natstest.Server) storetest.Rooms {
	t.Helper()
	store := storetest.Connect(t, natsstore.Options{Conn: server})
	require.NoError(t, store.Provision(t.Context()))
	return store
}

// append stores an event, and returns where.
func (s *wakeSite) append(path sluice.Path) (uint64, error) {
	stored, err := s.store.Log.Publish(context.Background(), s.sub.Namespace, []sluice.Event{{
		ID: rand.Text(), Namespace: s.sub.Namespace, Path: path, Data: []byte("x"),
	}})
	if err != nil {
		return 0, err
	}
	return stored[0].Seq, nil
}

// record returns a consumer as it is stored.
func (s *wakeSite) record(path sluice.Path) wake.Consumer {
	en, err := records.NewWakes(s.store.Store).Get(context.Background(), s.sub.ID, path)
	if err != nil {
		return wake.Consumer{LastError: err.Error()}
	}
	return en.Consumer
}

// wakeNode is an engine, with a store of its own if it is to die alone.
type wakeNode struct {
	site   *wakeSite
	store  storetest.Rooms
	engine *wake.Engine
	owns   bool
	dead   atomic.Bool
	log    *deliverystore.AttemptLog
	cancel context.CancelFunc
	ended  chan struct{}
	endLog context.CancelFunc
	err    error
}

// node starts an engine. change may change what it works with.
func (s *wakeSite) node(store storetest.Rooms, owns bool, change func(*wake.Deps, *wake.Options)) (*wakeNode, error) {
	n := &wakeNode{site: s, store: store, owns: owns, ended: make(chan struct{})}
	var err error
	if n.log, err = store.Deliveries.AttemptLog(); err != nil {
		return nil, err
	}
	ports := wake.Deps{
		Watch: n, Owns: ownAll{n}, Records: records.NewWakes(store.Store), Streams: streamsOn(store), Sources: records.WakeSources{Store: store.Deliveries},
		Poster: n, Log: n.log, Registry: n, Keys: s.keys,
	}
	opts := wake.Options{PublicURL: "http://test"}
	if change != nil {
		change(&ports, &opts)
	}
	n.engine = wake.New(ports, opts)
	var ctx, logging context.Context
	ctx, n.cancel = context.WithCancel(context.Background())
	logging, n.endLog = context.WithCancel(context.WithoutCancel(ctx))
	var parts sync.WaitGroup
	parts.Go(func() { _ = n.log.Run(logging) })
	go func() {
		defer close(n.ended)
		n.err = n.engine.Run(ctx)
		n.endLog()
		parts.Wait()
	}()
	return n, nil
}

// stop ends the engine in order.
func (n *wakeNode) stop() {
	n.cancel()
	<-n.ended
}

// Watch tells of the one subscription.
func (n *wakeNode) Watch(ctx context.Context, change func(string, *sluice.Subscription)) error {
	change(n.site.sub.ID, n.site.sub)
	change("", nil)
	<-ctx.Done()
	return ctx.Err()
}

// Post hands a notice to whom the site wakes, unless the node is dead.
func (n *wakeNode) Post(ctx context.Context, sub *sluice.Subscription, l wake.Letter) (sluice.Attempt, []byte) {
	a := sluice.Attempt{Subscription: sub.ID, EventID: l.WakeID, Seq: l.Seq, Path: l.Path, Type: sluice.TypeNotice, Number: l.Number, StartedAt: time.Now().UTC()}
	if n.dead.Load() || ctx.Err() != nil {
		a.Outcome, a.Error = sluice.Failed, "dead"
		return a, nil
	}
	status, body := n.site.post(l)
	a.Status, a.Outcome = status, sluice.Delivered
	if status >= 300 {
		a.Outcome, a.Error = sluice.Failed, fmt.Sprint("status ", status)
	}
	a.Verdict.Settled = a.Outcome == sluice.Delivered
	return a, []byte(body)
}

// Get returns the one subscription.
func (n *wakeNode) Get(context.Context, string) (*sluice.Subscription, error) { return n.site.sub, nil }

// Revoke is not to be called: everything may be seen.
func (n *wakeNode) Revoke(context.Context, *sluice.Subscription) (bool, error) {
	return false, sluice.Errorf(sluice.Unavailable, "no grant was revoked")
}

// ownAll owns everything, or nothing, for ever.
type ownAll struct{ node *wakeNode }

// Run does nothing.
func (o ownAll) Run(ctx context.Context, _ func() <-chan struct{}) error {
	<-ctx.Done()
	return ctx.Err()
}

// Owns says what the node was made for.
func (o ownAll) Owns(string) bool { return o.node.owns }

// soon reports whether a condition came to hold in time.
func soon(limit time.Duration, condition func() bool) bool {
	end := time.Now().Add(limit)
	for wait := 2 * time.Millisecond; !condition(); wait = min(wait*3/2, 50*time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
		<-time.After(wait)
	}
	return true
}
