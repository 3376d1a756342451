package grants_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/authz"
	"github.com/sluice-io/sluice/internal/grants"
	"github.com/sluice-io/sluice/internal/ledger"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

const (
	patience = time.Minute
	ttl      = 15 * time.Second // of a presence, as a server has it
	shortTTL = 6 * time.Second  // where its end is waited for: an announcement may take 0.8 s
)

// replica is one of the servers that share a store.
type replica struct {
	*grants.Authority

	index   *authz.Index
	store   *natsstore.Store
	records natsstore.Bucket[authz.Record]
	stop    context.CancelFunc // as if it were killed

	mu        sync.Mutex
	hold      chan struct{} // Withdraw waits for it; nil: it does not
	withdrawn int
	cancelled []string
	follower  *grants.Follower
}

func (r *replica) Withdraw(ctx context.Context, _ func(*sluice.Subscription) bool) error {
	r.mu.Lock()
	r.withdrawn++
	hold := r.hold
	r.mu.Unlock()
	if hold == nil {
		return nil
	}
	select {
	case <-hold:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// links are the links to the portal in the store.
type links struct {
	natsstore.Bucket[grants.PortalLink]
}

func (l links) All(ctx context.Context, filter string) (all []grants.PortalLink, err error) {
	entries, err := l.List(ctx, filter)
	for _, e := range entries {
		all = append(all, e.Value)
	}
	return all, err
}

// revoker remembers which subscriptions a replica has ended.
type revoker struct{ *replica }

func (r revoker) Revoke(_ context.Context, of *sluice.Subscription) (bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cancelled = append(r.cancelled, of.ID+" "+sluice.ReasonAccessRevoked)
	return true, nil
}

// decides waits for a decision: a replica that got no processor, or no answer, for a while is undecided.
func (r *replica) decides(t *testing.T, want model.Decision, sub *sluice.Subscription, ev *sluice.Event) {
	t.Helper()
	require.Eventually(t, func() bool { return r.index.Decide(sub, ev, time.Now()) == want }, patience, 10*time.Millisecond)
}

func (r *replica) ended() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string{}, r.cancelled...)
}

func start(t *testing.T, server *natstest.Server, id string) *replica {
	t.Helper()
	return startFor(t, server, id, ttl)
}

// startFor starts a replica that may be silent for ttl.
func startFor(t *testing.T, server *natstest.Server, id string, ttl time.Duration) *replica {
	t.Helper()
	store, err := natsstore.Connect(t.Context(), natsstore.Options{Conn: server})
	require.NoError(t, err)
	t.Cleanup(store.Close)
	require.NoError(t, store.Provision(t.Context()))
	log := slog.New(slog.DiscardHandler)
	r := &replica{index: authz.NewIndex(), store: store, records: natsstore.OpenBucket[authz.Record](store, streams.Access)}
	presence := grants.NewPresence(id, r.records, r.index, ttl, log)
	r.Authority = grants.New(grants.Deps{
		Records: r.records, Index: r.index, Ledger: ledger.New(store.Ledger(), log), Now: time.Now,
		Keys: func(ctx context.Context) ([]grants.Key, error) {
			keys, err := store.Keys().For(ctx, sluice.UseGrant)
			if err != nil {
				return nil, err
			}
			return []grants.Key{{ID: keys[0].ID, Private: keys[0].Private()}}, nil
		},
		Links:   links{natsstore.OpenBucket[grants.PortalLink](store, streams.PortalLinks)},
		Tickets: func() [][]byte { return [][]byte{make([]byte, 32)} },
	})
	r.follower = &grants.Follower{Index: r.index, Presence: presence, Withdraw: r, Revoker: revoker{r}, Forget: r.records, Now: time.Now, Log: log}
	var ctx context.Context
	ctx, r.stop = context.WithCancel(t.Context())
	var parts sync.WaitGroup
	parts.Go(func() { presence.Run(ctx) })
	parts.Go(func() {
		_ = r.records.Watch(ctx, ">", func(e natsstore.Entry[authz.Record]) {
			switch e.Change {
			case natsstore.Set:
				r.follower.Set(ctx, e.Key, e.Value, e.Revision)
			case natsstore.Removed:
				r.follower.Remove(e.Key, e.Revision)
			case natsstore.CaughtUp:
				r.follower.CaughtUp()
			}
		})
	})
	t.Cleanup(func() { r.stop(); parts.Wait() })
	return r
}

var (
	root     = sluice.Caller{Principal: sluice.Root}
	deadline = time.Now().Add(time.Hour) // of all grants: a part of one may last as long as it
)

func wish(t *testing.T, p sluice.Principal, object string, verbs ...sluice.Verb) grants.Wish {
	t.Helper()
	o, err := sluice.ParseObject(object)
	require.NoError(t, err)
	return grants.Wish{Principal: p, Verbs: verbs, Object: &o, ExpiresAt: deadline}
}

func (r *replica) mint(t *testing.T, by sluice.Caller, w grants.Wish) grants.Minted {
	t.Helper()
	m, err := r.Mint(t.Context(), by, w)
	require.NoError(t, err)
	return m
}

func (r *replica) who(t *testing.T, token string) sluice.Caller {
	t.Helper()
	c, err := r.Authenticate(t.Context(), token)
	require.NoError(t, err)
	return c
}
