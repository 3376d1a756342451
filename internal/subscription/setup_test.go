package subscription_test

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/endpoint"
	"github.com/sluice-io/sluice/internal/ledger"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/subscription"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/internal/testkit/storetest"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

const url = "https://192.0.2.1/hook"

// consumers are the real ones; the first calls can be made to fail.
type consumers struct {
	store storetest.Rooms

	mu   sync.Mutex
	fail []error
}

func (c *consumers) next() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.fail) == 0 {
		return nil
	}
	err := c.fail[0]
	c.fail = c.fail[1:]
	return err
}

func (*consumers) Expect(*sluice.Subscription) {}

func (c *consumers) Ensure(ctx context.Context, sub *sluice.Subscription) error {
	if err := c.next(); err != nil {
		return err
	}
	return c.store.Deliveries.EnsureConsumers(ctx, sub)
}

func (c *consumers) Remove(ctx context.Context, sub *sluice.Subscription) error {
	if err := c.next(); err != nil {
		return err
	}
	return c.store.Deliveries.RemoveConsumers(ctx, sub)
}

func (c *consumers) Place(ctx context.Context, sub *sluice.Subscription) (uint64, error) {
	if err := c.next(); err != nil {
		return 0, err
	}
	return c.store.Deliveries.Place(ctx, sub)
}

// heard keeps what is announced, and reacts to it.
type heard struct {
	react func(kind string, sub *sluice.Subscription) // nil: not at all

	outbox interface { // where it is noted that it was told; nil: nowhere
		Told(ctx context.Context, sub *sluice.Subscription) error
	}

	mu    sync.Mutex
	kinds []string
	all   []sluice.Announcement
	err   error
}

func (h *heard) Subscription(ctx context.Context, sub *sluice.Subscription) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(sub.Untold) == 0 {
		return // a step on the way
	}
	h.all = append(h.all, sub.Untold...)
	kind := sub.Untold[len(sub.Untold)-1].Type
	h.kinds = append(h.kinds, kind)
	if h.outbox != nil {
		h.err = errors.Join(h.err, h.outbox.Told(ctx, sub))
	}
	if h.react != nil {
		h.react(kind, sub)
	}
}

// bench is a registry on a server of its own.
type bench struct {
	*subscription.Registry

	store     storetest.Rooms
	js        jetstream.JetStream
	consumers *consumers
	heard     *heard
	needs     subscription.Deps
}

func newBench(tb testing.TB) *bench {
	tb.Helper()
	server := natstest.New(tb)
	store := storetest.Connect(tb, natsstore.Options{Conn: server})
	require.NoError(tb, store.Provision(tb.Context()))

	sender := endpoint.New(endpoint.Options{AllowCIDRs: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}})
	tb.Cleanup(sender.Close)
	b := &bench{store: store, js: natstest.JetStream(tb, server), consumers: &consumers{store: store}, heard: &heard{outbox: store.Subscriptions()}}
	b.needs = subscription.Deps{
		Subscriptions: store.Subscriptions(),
		Reservations:  natsstore.OpenBucket[subscription.Reservation](store.Store, streams.Reservations),
		Logs:          store.Log,
		Endpoints:     sender,
		Consumers:     b.consumers,
		Replays:       store.Deliveries.Replays(),
		ReplayLogs:    store.Log,
		Ledger:        ledger.New(store.Ledger(), slog.New(slog.DiscardHandler)),
		Announce:      b.heard,
		Now:           time.Now,
	}
	b.Registry = subscription.New(b.needs)
	return b
}

func (b *bench) makeAcme(t *testing.T) {
	t.Helper()
	_, _, err := b.store.Namespaces().Put(t.Context(), sluice.Namespace{Name: "acme"})
	require.NoError(t, err)
}

// gone cancels a subscription as an attempt with its present settings does.
func (b *bench) gone(ctx context.Context, id string) error {
	sub, err := b.Get(ctx, id)
	if err != nil {
		return err
	}
	_, err = b.Cancel(ctx, sub, func() error { return nil })
	return err
}

// hasConsumer reports whether the durable consumer of a subscription in the default namespace exists.
func (b *bench) hasConsumer(t *testing.T, id string) bool {
	t.Helper()
	_, err := b.js.Consumer(t.Context(), "EVENTS_default", id)
	if err != nil {
		require.ErrorIs(t, err, jetstream.ErrConsumerNotFound)
	}
	return err == nil
}

func parse(t *testing.T, body string) *subscription.Request {
	t.Helper()
	req, err := subscription.ParseRequest([]byte(body))
	require.NoError(t, err)
	return req
}

func (b *bench) create(t *testing.T, body string) *sluice.Subscription {
	t.Helper()
	sub, created, err := b.Create(t.Context(), parse(t, body), "root")
	require.NoError(t, err)
	require.True(t, created)
	return sub
}

func requireCode(t *testing.T, want sluice.Code, err error) {
	t.Helper()
	require.Error(t, err)
	require.Equal(t, want, sluice.CodeOf(err), "%v", err)
}
