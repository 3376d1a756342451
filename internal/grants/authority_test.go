package grants_test

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/authz"
	"github.com/sluice-io/sluice/internal/grants"
	"github.com/sluice-io/sluice/internal/ledger"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// S0-54…58: a token counts from the moment it is handed out, on every replica, until it is revoked.
func TestToken_CountsFromMintingToRevocation(t *testing.T) {
	t.Parallel()
	server := natstest.New(t)
	a, b := start(t, server, "a"), start(t, server, "b")
	for range 20 {
		m := a.mint(t, root, wish(t, "user:ann", "scope:acme", "read"))
		require.Equal(t, sluice.Caller{Principal: "user:ann", Grant: m.ID}, a.who(t, m.Token))
		require.Equal(t, sluice.Caller{Principal: "user:ann", Grant: m.ID}, b.who(t, m.Token), "another replica knows at once")
		_, err := b.Revoke(t.Context(), root, m.ID)
		require.NoError(t, err)
		for _, r := range []*replica{a, b} {
			_, err := r.Authenticate(t.Context(), m.Token)
			require.Equal(t, sluice.Unauthenticated, sluice.CodeOf(err), "it was acknowledged")
		}
	}
}

// What takes something away is acknowledged when every replica has stopped what it had under way.
func TestRevoke_WaitsForEveryReplica(t *testing.T) {
	t.Parallel()
	server := natstest.New(t)
	a, b := start(t, server, "a"), start(t, server, "b")
	m := a.mint(t, root, wish(t, "user:ann", "scope:acme", "read"))
	b.who(t, m.Token)
	b.mu.Lock()
	b.hold = make(chan struct{})
	b.mu.Unlock()
	done := make(chan error, 1)
	go func() {
		_, err := a.Revoke(t.Context(), root, m.ID)
		done <- err
	}()
	require.Eventually(t, func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.withdrawn > 0
	}, patience, time.Millisecond)
	select {
	case err := <-done:
		t.Fatalf("acknowledged while a replica still sends: %v", err)
	default:
	}
	close(b.hold)
	require.NoError(t, <-done)
}

// A replica that is gone is waited for as long as it might still act; one that cannot see what
// is stored stops by itself before.
func TestRevoke_BlindReplicaStopsBeforeOthersGoOn(t *testing.T) {
	t.Parallel()
	server := natstest.New(t)
	a, b := startFor(t, server, "a", shortTTL), startFor(t, server, "b", shortTTL)
	m := a.mint(t, root, wish(t, "user:ann", "scope:acme", "subscribe"))
	b.who(t, m.Token)
	sub := &sluice.Subscription{ID: "s", Namespace: "acme", Pattern: "/**", Lifecycle: sluice.Lifecycle{CreatedBy: "user:ann", Grant: m.ID}}
	ev := &sluice.Event{Namespace: "acme", Path: "/a", Seq: 1}
	b.decides(t, model.Pass, sub, ev)
	b.stop() // it neither sees nor says anything any more, and would go on sending
	_, err := a.Revoke(t.Context(), root, m.ID)
	require.NoError(t, err)
	require.Equal(t, model.Undecided, b.index.Decide(sub, ev, time.Now()), "it lets nothing out") // and never does again
	a.decides(t, model.Lost, sub, ev)
}

// A replica that could not see what is stored for a while decides again when it has caught up.
func TestIndex_DecidesAgainAfterCatchingUp(t *testing.T) {
	t.Parallel()
	server := natstest.New(t)
	a := startFor(t, server, "a", shortTTL)
	m := a.mint(t, root, wish(t, "user:ann", "scope:acme", "subscribe"))
	sub := &sluice.Subscription{ID: "s", Namespace: "acme", Pattern: "/**", Lifecycle: sluice.Lifecycle{CreatedBy: "user:ann", Grant: m.ID}}
	ev := &sluice.Event{Namespace: "acme", Path: "/a", Seq: 1}
	a.decides(t, model.Pass, sub, ev)
	server.Stop(t)
	a.decides(t, model.Undecided, sub, ev)
	server.Restart(t)
	a.decides(t, model.Pass, sub, ev)
}

// A holder gives a part of its grant away, and no more.
func TestMint_HolderGivesAPartAway(t *testing.T) {
	t.Parallel()
	r := start(t, natstest.New(t), "a")
	admin := r.mint(t, root, wish(t, "user:ann", "scope:acme", "read", "subscribe"))
	ann := r.who(t, admin.Token)
	part := r.mint(t, ann, wish(t, "ai_agent:bot", "path:acme/a/**", "read"))
	require.Equal(t, admin.ID, part.Parent)
	require.EqualValues(t, "user:ann", part.IssuedBy)

	for name, w := range map[string]grants.Wish{
		"another verb":      wish(t, "ai_agent:bot", "scope:acme", "publish"),
		"admin":             wish(t, "ai_agent:bot", "scope:acme", "admin"),
		"another namespace": wish(t, "ai_agent:bot", "scope:other", "read"),
		"everything":        wish(t, "ai_agent:bot", "*", "read"),
	} {
		_, err := r.Mint(t.Context(), ann, w)
		require.Equal(t, sluice.CapabilityRequired, sluice.CodeOf(err), name)
	}
	longer := wish(t, "ai_agent:bot", "scope:acme", "read")
	longer.ExpiresAt = deadline.Add(time.Hour)
	_, err := r.Mint(t.Context(), ann, longer)
	require.Equal(t, sluice.CapabilityRequired, sluice.CodeOf(err))
	bot := r.who(t, part.Token)
	_, err = r.Mint(t.Context(), bot, wish(t, "user:eve", "scope:acme", "read"))
	require.Equal(t, sluice.CapabilityRequired, sluice.CodeOf(err), "the part of a part is part of the part")

	_, err = r.Revoke(t.Context(), root, admin.ID)
	require.NoError(t, err)
	_, err = r.Authenticate(t.Context(), part.Token)
	require.Equal(t, sluice.Unauthenticated, sluice.CodeOf(err), "it ends with what it is a part of")
}

// S4-13: receivers take the kind system for the operator's own word.
func TestMint_OnlyRootNamesASystem(t *testing.T) {
	t.Parallel()
	r := start(t, natstest.New(t), "a")
	all := r.who(t, r.mint(t, root, wish(t, "user:ann", "*", "read", "admin")).Token)
	_, err := r.Mint(t.Context(), all, wish(t, "system:sync", "scope:acme", "read"))
	require.Equal(t, sluice.CapabilityRequired, sluice.CodeOf(err))
	require.ErrorContains(t, err, "only root")
	r.mint(t, all, wish(t, "service:sync", "scope:acme", "read"))
	r.mint(t, root, wish(t, "system:sync", "scope:acme", "read"))
}

func TestMint_DepthIsBounded(t *testing.T) {
	t.Parallel()
	r := start(t, natstest.New(t), "a")
	by, last := root, ""
	var err error
	for i := 0; err == nil; i++ {
		require.LessOrEqual(t, i, sluice.MaxGrantDepth+1)
		var m grants.Minted
		w := wish(t, "user:ann", "scope:acme", "read")
		if m, err = r.Mint(t.Context(), by, w); err == nil {
			by, last = r.who(t, m.Token), m.Token
		}
	}
	require.Equal(t, sluice.CapabilityRequired, sluice.CodeOf(err))
	who := r.who(t, last)
	require.NoError(t, r.index.Require(who, "read", authz.Target{Namespace: "acme", Path: "/a"}, time.Now()), "the longest chain holds")
}

func TestMint_RefusesInvalidGrants(t *testing.T) {
	t.Parallel()
	r := start(t, natstest.New(t), "a")
	for name, change := range map[string]func(*grants.Wish){
		"no principal":                 func(w *grants.Wish) { w.Principal = "" },
		"root":                         func(w *grants.Wish) { w.Principal = "root" },
		"another kind":                 func(w *grants.Wish) { w.Principal = "robot:x" },
		"a name with a dot..*":         func(w *grants.Wish) { w.Principal = "user:*" },
		"no verb":                      func(w *grants.Wish) { w.Verbs = nil },
		"an unknown verb":              func(w *grants.Wish) { w.Verbs = []sluice.Verb{"write"} },
		"a verb twice":                 func(w *grants.Wish) { w.Verbs = []sluice.Verb{"read", "read"} },
		"no object":                    func(w *grants.Wish) { w.Object = nil },
		"no end":                       func(w *grants.Wish) { w.ExpiresAt = time.Time{} },
		"an end that was":              func(w *grants.Wish) { w.ExpiresAt = time.Now().Add(-time.Second) },
		"more than 90 days":            func(w *grants.Wish) { w.ExpiresAt = time.Now().Add(sluice.MaxGrantAge + time.Minute) },
		"on behalf of an unknown name": func(w *grants.Wish) { w.OnBehalfOf = "nobody" },
	} {
		w := wish(t, "user:ann", "scope:acme", "read")
		change(&w)
		_, err := r.Mint(t.Context(), root, w)
		require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(err), name)
	}
}

// A grant that is renewed keeps its id, so what was made under it stays; its former token is one that
// is replayed.
func TestRenew_ReplacesTheToken(t *testing.T) {
	t.Parallel()
	r := start(t, natstest.New(t), "a")
	m := r.mint(t, root, wish(t, "user:ann", "scope:acme", "read"))
	until := time.Now().Add(24 * time.Hour)
	again, err := r.Renew(t.Context(), root, m.ID, until)
	require.NoError(t, err)
	require.Equal(t, m.ID, again.ID)
	require.WithinDuration(t, until, again.ExpiresAt, time.Second)
	r.who(t, again.Token)
	_, err = r.Authenticate(t.Context(), m.Token)
	found, verr := r.Verify(t.Context(), m.Token, grants.Question{})
	require.NoError(t, verr)
	require.Equal(t, sluice.Unauthenticated, sluice.CodeOf(err))
	require.Equal(t, "token_replay", found.Reason)

	_, err = r.Renew(t.Context(), r.who(t, again.Token), m.ID, until)
	require.Equal(t, sluice.NotFound, sluice.CodeOf(err), "a holder does not renew its own grant")
	_, err = r.Revoke(t.Context(), r.who(t, again.Token), m.ID)
	require.NoError(t, err, "but a holder may give its grant back")
	_, err = r.Renew(t.Context(), root, m.ID, until)
	require.Equal(t, sluice.Conflict, sluice.CodeOf(err), "that is final")
}

func TestGrants_AreListedAndRevokedByTheConcerned(t *testing.T) {
	t.Parallel()
	r := start(t, natstest.New(t), "a")
	admin := r.mint(t, root, wish(t, "user:admin", "scope:acme", "admin"))
	mine := r.mint(t, root, wish(t, "user:ann", "scope:acme", "read"))
	part := r.mint(t, r.who(t, mine.Token), wish(t, "ai_agent:bot", "scope:acme", "read"))
	other := r.mint(t, root, wish(t, "user:eve", "scope:other", "admin"))
	seen := func(token string) (ids []string) {
		page, next := r.Grants(r.who(t, token), grants.GrantQuery{})
		require.Empty(t, next)
		for _, g := range page {
			ids = append(ids, g.ID)
		}
		return ids
	}
	require.Equal(t, []string{part.ID, mine.ID}, seen(mine.Token))
	require.Equal(t, []string{part.ID}, seen(part.Token))
	require.Equal(t, []string{part.ID, mine.ID, admin.ID}, seen(admin.Token))
	require.Equal(t, []string{other.ID}, seen(other.Token))
	all, next := r.Grants(root, grants.GrantQuery{Limit: 3})
	require.Len(t, all, 3)
	rest, _ := r.Grants(root, grants.GrantQuery{Limit: 3, After: next})
	require.Len(t, rest, 1)

	_, err := r.Revoke(t.Context(), r.who(t, other.Token), mine.ID)
	require.Equal(t, sluice.NotFound, sluice.CodeOf(err))
	_, err = r.Revoke(t.Context(), r.who(t, part.Token), mine.ID)
	require.Equal(t, sluice.NotFound, sluice.CodeOf(err), "not what one's own is a part of")
	_, err = r.Revoke(t.Context(), r.who(t, mine.Token), part.ID)
	require.NoError(t, err)
	_, err = r.Revoke(t.Context(), r.who(t, admin.Token), mine.ID)
	require.NoError(t, err)
	_, err = r.Revoke(t.Context(), root, "018f3a2e-7a53-7000-8000-000000000000")
	require.Equal(t, sluice.NotFound, sluice.CodeOf(err))
}

// S0-64: subscriptions end with nothing to send, and without a revocation.
func TestAccess_LossEndsTheSubscription(t *testing.T) {
	t.Parallel()
	r := start(t, natstest.New(t), "a")
	short := wish(t, "user:ann", "scope:acme", "subscribe")
	short.ExpiresAt = time.Now().Add(2 * time.Second)
	expires := r.mint(t, root, short)
	revoked := r.mint(t, root, wish(t, "user:bob", "scope:acme", "subscribe"))
	stays := r.mint(t, root, wish(t, "user:eve", "scope:acme", "subscribe"))
	for id, g := range map[string]string{"expires": expires.ID, "revoked": revoked.ID, "stays": stays.ID, "roots": ""} {
		r.follower.Know(id, &sluice.Subscription{ID: id, Namespace: "acme", Pattern: "/**", Lifecycle: sluice.Lifecycle{CreatedBy: "user:x", Grant: g, State: sluice.Paused}})
	}
	_, err := r.Revoke(t.Context(), root, revoked.ID)
	require.NoError(t, err)
	require.Equal(t, []string{"revoked access_revoked"}, r.ended())
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { r.follower.Run(ctx, 10*time.Millisecond) })
	require.Eventually(t, func() bool {
		ended := r.ended()
		return ended[len(ended)-1] == "expires access_revoked"
	}, patience, time.Millisecond)
	cancel()
	running.Wait()
	require.NotContains(t, r.ended(), "stays access_revoked")
}

// Every change of rights is in the ledger, with who made it under which grant, and without tokens.
func TestLedger_RecordsEveryChangeOfRights(t *testing.T) {
	t.Parallel()
	r := start(t, natstest.New(t), "a")
	admin := r.mint(t, root, wish(t, "user:admin", "scope:acme", "admin"))
	by := r.who(t, admin.Token)
	ctx := model.WithCaller(t.Context(), by)
	m, err := r.Mint(ctx, by, wish(t, "user:ann", "scope:acme", "read"))
	require.NoError(t, err)
	_, err = r.PutACL(ctx, by, sluice.ACL{Namespace: "acme", Principal: "user:admin", Entries: []sluice.Access{{Tier: sluice.TierAdmin}}})
	require.NoError(t, err)
	_, err = r.Revoke(ctx, by, m.ID)
	require.NoError(t, err)
	entries, _, err := r.store.Ledger().Entries(t.Context(), model.LedgerQuery{Limit: 100})
	require.NoError(t, err)
	var actions []string
	for _, e := range entries {
		actions = append(actions, e.Action+" "+e.Actor)
		if e.Actor == "user:admin" {
			require.Equal(t, admin.ID, e.Grant)
		}
		require.NotContains(t, string(e.New)+string(e.Old), "nonce")
		require.NotContains(t, string(e.New)+string(e.Old), m.Token)
	}
	require.Equal(t, []string{"grant.revoke user:admin", "acl.put user:admin", "grant.issue user:admin", "grant.issue root"}, actions)
}

// A holder cannot fill the store, and what ended long ago goes.
func TestGrants_AreBoundedAndRemovedLongAfterTheirEnd(t *testing.T) {
	t.Parallel()
	r := start(t, natstest.New(t), "a")
	parent := r.mint(t, root, wish(t, "user:ann", "scope:acme", "read"))
	ann := r.who(t, parent.Token)
	part := r.mint(t, ann, wish(t, "user:bob", "scope:acme", "read"))
	for i := range 999 {
		g := &authz.Granted{Grant: sluice.Grant{ID: fmt.Sprint("g", i), Parent: parent.ID, ExpiresAt: deadline}}
		r.index.Set(streams.GrantKey(g.ID), authz.Record{Grant: g}, 1) // as if they were stored
	}
	_, err := r.Mint(t.Context(), ann, wish(t, "user:bob", "scope:acme", "read"))
	require.Equal(t, sluice.QuotaExceeded, sluice.CodeOf(err))
	r.mint(t, root, wish(t, "user:bob", "scope:acme", "read"))
	for i := range 999 {
		r.index.Remove(streams.GrantKey(fmt.Sprint("g", i)), 1)
	}

	r.follower.Now = func() time.Time { return deadline.Add(29 * 24 * time.Hour) }
	require.Empty(t, r.index.Over(r.follower.Now().Add(-30*24*time.Hour), time.Time{}))
	r.follower.Now = func() time.Time { return deadline.Add(31 * 24 * time.Hour) }
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { r.follower.Run(ctx, 10*time.Millisecond) })
	require.Eventually(t, func() bool {
		_, first := r.index.Grant(parent.ID)
		_, second := r.index.Grant(part.ID)
		return !first && !second
	}, patience, time.Millisecond, "a part first, then what it was a part of")
	cancel()
	running.Wait()
	_, err = r.Authenticate(t.Context(), parent.Token)
	require.Equal(t, sluice.Unauthenticated, sluice.CodeOf(err))
}

// Nor by the parts of parts.
func TestGrants_NestedPartsAreBounded(t *testing.T) {
	t.Parallel()
	r := start(t, natstest.New(t), "a")
	whole := r.mint(t, root, wish(t, "user:ann", "scope:acme", "read"))
	part := r.mint(t, r.who(t, whole.Token), wish(t, "user:bob", "scope:acme", "read"))
	other := r.mint(t, r.who(t, whole.Token), wish(t, "user:eve", "scope:acme", "read"))
	for i := range 998 {
		g := &authz.Granted{Grant: sluice.Grant{ID: fmt.Sprint("g", i), Parent: part.ID, ExpiresAt: deadline}}
		r.index.Set(streams.GrantKey(g.ID), authz.Record{Grant: g}, 1) // as if they were stored
	}
	_, err := r.Mint(t.Context(), r.who(t, other.Token), wish(t, "user:new", "scope:acme", "read"))
	require.Equal(t, sluice.QuotaExceeded, sluice.CodeOf(err))
	r.mint(t, root, wish(t, "user:new", "scope:acme", "read"))
}

// A caller that makes up tokens does not cause a read of the store for each of them.
func TestKeys_AbsentOnesAreLookedUpOnceASecond(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	_, key, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	a := grants.New(grants.Deps{Index: authz.NewIndex(), Now: time.Now, Keys: func(context.Context) ([]grants.Key, error) {
		asked.Add(1)
		return []grants.Key{{ID: "ours", Private: key}}, nil
	}})
	forged, err := authz.Sign(&sluice.Grant{ID: "g", Principal: "user:eve", Verbs: []sluice.Verb{"admin"}, ExpiresAt: deadline}, "00", "theirs", key)
	require.NoError(t, err)
	began := time.Now()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 50 {
				_, err := a.Authenticate(t.Context(), forged)
				require.Equal(t, sluice.Unauthenticated, sluice.CodeOf(err))
			}
		})
	}
	all.Wait()
	require.LessOrEqual(t, asked.Load(), int64(time.Since(began)/time.Second)+1)
}

// Admins end other people's grants, and get no token of theirs.
func TestRenew_IsForTheGrantsChain(t *testing.T) {
	t.Parallel()
	r := start(t, natstest.New(t), "a")
	admin := r.mint(t, root, wish(t, "user:admin", "scope:acme", "admin"))
	sysadmin := r.mint(t, root, wish(t, "user:sys", "*", "admin"))
	erp := r.mint(t, root, wish(t, "service:erp", "scope:acme", "read"))
	part := r.mint(t, r.who(t, admin.Token), wish(t, "service:part", "scope:acme", "read"))
	for _, token := range []string{admin.Token, sysadmin.Token} {
		_, err := r.Renew(t.Context(), r.who(t, token), erp.ID, deadline)
		require.Equal(t, sluice.Forbidden, sluice.CodeOf(err))
	}
	_, err := r.Renew(t.Context(), r.who(t, admin.Token), part.ID, deadline)
	require.NoError(t, err)
	r.who(t, erp.Token)
	_, err = r.Revoke(t.Context(), r.who(t, admin.Token), erp.ID)
	require.NoError(t, err)
}

// full is a ledger that takes nothing any more.
type full struct{}

func (full) Append(context.Context, *sluice.LedgerEntry) error {
	return errors.New("the ledger is full")
}

// A change that protects does not wait for a ledger that is full; one that gives rights does.
func TestRevoke_WorksWithAFullLedger(t *testing.T) {
	t.Parallel()
	r := start(t, natstest.New(t), "a")
	m := r.mint(t, root, wish(t, "user:ann", "scope:acme", "read"))
	_, err := r.PutACL(t.Context(), root, sluice.ACL{Namespace: "acme", Principal: "user:bob", Entries: []sluice.Access{{Tier: sluice.TierRead}}})
	require.NoError(t, err)
	broken := grants.New(grants.Deps{
		Records: r.records, Index: r.index, Ledger: ledger.New(full{}, slog.New(slog.DiscardHandler)), Now: time.Now,
		Keys: func(context.Context) ([]grants.Key, error) { return nil, errors.New("not asked for") },
	})
	_, err = broken.Revoke(t.Context(), root, m.ID)
	require.NoError(t, err)
	_, err = r.Authenticate(t.Context(), m.Token)
	require.Equal(t, sluice.Unauthenticated, sluice.CodeOf(err))
	require.NoError(t, broken.DeleteACL(t.Context(), root, "acme", "user:bob"))
	_, err = broken.PutACL(t.Context(), root, sluice.ACL{Namespace: "acme", Principal: "user:bob", Entries: []sluice.Access{{Tier: sluice.TierRead}}})
	require.Equal(t, sluice.Unavailable, sluice.CodeOf(err))
}
