package grants_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// An access list always has an admin.
func TestACL_KeepsTheLastAdmin(t *testing.T) {
	t.Parallel()
	r := start(t, natstest.New(t), "a")
	put := func(p sluice.Principal, entries ...sluice.Access) error {
		_, err := r.PutACL(t.Context(), root, sluice.ACL{Namespace: "acme", Principal: p, Entries: entries})
		return err
	}
	admin, read := sluice.Access{Tier: sluice.TierAdmin, Pattern: "/**"}, sluice.Access{Tier: sluice.TierRead}
	require.NoError(t, put("user:ann", admin))
	require.Equal(t, sluice.Conflict, sluice.CodeOf(put("user:ann", read)))
	require.Equal(t, sluice.Conflict, sluice.CodeOf(r.DeleteACL(t.Context(), root, "acme", "user:ann")))
	require.NoError(t, put("user:bob", admin))
	require.NoError(t, put("user:ann", read))
	acl, err := r.ACL("acme", "user:ann")
	require.NoError(t, err)
	require.Equal(t, []sluice.Access{{Tier: sluice.TierRead, Pattern: "/**"}}, acl.Entries)
	require.Equal(t, sluice.Conflict, sluice.CodeOf(r.DeleteACL(t.Context(), root, "acme", "user:bob")))
	require.NoError(t, r.DeleteACL(t.Context(), root, "acme", "user:ann"))
	require.Len(t, r.ACLs("acme"), 1)
	require.Equal(t, sluice.NotFound, sluice.CodeOf(r.DeleteACL(t.Context(), root, "acme", "user:ann")))
}

// Two who remove one another at once do not both succeed.
func TestACL_MutualRemovalLeavesOneAdmin(t *testing.T) {
	t.Parallel()
	server := natstest.New(t)
	a, b := start(t, server, "a"), start(t, server, "b")
	for i := range 10 {
		ns := "n" + string(rune('a'+i))
		for _, p := range []sluice.Principal{"user:ann", "user:bob"} {
			_, err := a.PutACL(t.Context(), root, sluice.ACL{Namespace: ns, Principal: p, Entries: []sluice.Access{{Tier: sluice.TierAdmin, Pattern: "/**"}}})
			require.NoError(t, err)
		}
		require.Eventually(t, func() bool { return len(b.ACLs(ns)) == 2 }, patience, time.Millisecond)
		var both sync.WaitGroup
		errs := make([]error, 2)
		both.Go(func() { errs[0] = a.DeleteACL(t.Context(), root, ns, "user:ann") })
		both.Go(func() { errs[1] = b.DeleteACL(t.Context(), root, ns, "user:bob") })
		both.Wait()
		require.Equal(t, 1, countNil(errs), "%v", errs)
		require.Len(t, a.ACLs(ns), 1)
	}
}

func countNil(errs []error) (n int) {
	for _, err := range errs {
		if err == nil {
			n++
		}
	}
	return n
}

// A namespace that goes takes all rights in it along: another one of its name begins without.
func TestNamespace_DeletionRemovesItsRights(t *testing.T) {
	t.Parallel()
	r := start(t, natstest.New(t), "a")
	m := r.mint(t, root, wish(t, "user:ann", "scope:acme", "read"))
	everywhere := r.mint(t, root, wish(t, "user:bob", "*", "read"))
	_, err := r.PutACL(t.Context(), root, sluice.ACL{Namespace: "acme", Principal: "user:x", Entries: []sluice.Access{{Tier: sluice.TierAdmin, Pattern: "/**"}}})
	require.NoError(t, err)
	require.NoError(t, r.PutLabel(t.Context(), root, "acme", sluice.Label{Level: sluice.LevelSecret}))
	_, err = r.Erase(t.Context(), root, "acme", "/a", 7)
	require.NoError(t, err)
	require.Error(t, r.index.Sees(r.who(t, everywhere.Token), "acme", time.Now()))

	require.NoError(t, r.EndGrants(t.Context(), root, "acme"))
	_, err = r.Authenticate(t.Context(), m.Token)
	require.Equal(t, sluice.Unauthenticated, sluice.CodeOf(err))
	require.Error(t, r.index.Sees(r.who(t, everywhere.Token), "acme", time.Now()), "until all is gone, list and label bound those who have grants for everything")
	require.NoError(t, r.ForgetNamespace(t.Context(), root, "acme"))
	require.NoError(t, r.index.Sees(r.who(t, everywhere.Token), "acme", time.Now()))
	require.Empty(t, r.ACLs("acme"))
	require.True(t, r.Label("acme").Public())
	sub := &sluice.Subscription{ID: "s", Namespace: "acme", Pattern: "/**", Lifecycle: sluice.Lifecycle{CreatedBy: "root"}}
	require.Equal(t, model.Pass, r.index.Decide(sub, &sluice.Event{Namespace: "acme", Path: "/a", Seq: 1}, time.Now()))
}

// S0-57, S0-58: after Unavailable, a repeated change is confirmed by all replicas, too, although
// the record is stored already.
func TestStore_RepetitionIsConfirmed(t *testing.T) {
	t.Parallel()
	server := natstest.New(t)
	a, b := start(t, server, "a"), start(t, server, "b")
	put := func(ctx context.Context, p sluice.Principal, tier sluice.Tier) error {
		_, err := a.PutACL(ctx, root, sluice.ACL{Namespace: "acme", Principal: p, Entries: []sluice.Access{{Tier: tier}}})
		return err
	}
	require.NoError(t, put(t.Context(), "user:ann", sluice.TierAdmin))
	require.NoError(t, put(t.Context(), "user:bob", sluice.TierWrite))
	_, err := a.PutProfile(t.Context(), root, sluice.Profile{Principal: "user:ann", Clearance: sluice.Label{Level: sluice.LevelSecret}})
	require.NoError(t, err)
	a.mint(t, root, wish(t, "user:ann", "scope:acme", "read"))
	for _, c := range []struct {
		name string
		call func(ctx context.Context) error
		then sluice.Code // of a repetition that was confirmed
	}{
		{"PutACL", func(ctx context.Context) error { return put(ctx, "user:bob", sluice.TierRead) }, ""},
		{"DeleteACL", func(ctx context.Context) error { return a.DeleteACL(ctx, root, "acme", "user:bob") }, sluice.NotFound},
		{"DeleteProfile", func(ctx context.Context) error { return a.DeleteProfile(ctx, root, "user:ann") }, sluice.NotFound},
		{"PutLabel", func(ctx context.Context) error {
			return a.PutLabel(ctx, root, "acme", sluice.Label{Level: sluice.LevelSecret})
		}, ""},
		{"Erase", func(ctx context.Context) error { _, err := a.Erase(ctx, root, "acme", "/a", 7); return err }, ""},
		{"EndGrants", func(ctx context.Context) error { return a.EndGrants(ctx, root, "acme") }, ""},
	} {
		release := b.holds()
		first, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.call(first) }()
		require.Eventually(t, b.isHeld, patience, time.Millisecond, c.name)
		cancel()
		require.Error(t, <-ended, c.name) // its code depends on whether this replica knows yet that its write succeeded

		var code sluice.Code
		require.Eventually(t, func() bool {
			again, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			code = sluice.CodeOf(c.call(again))
			return code != sluice.Internal // its time was over before it waited
		}, patience, time.Millisecond, c.name)
		require.Equal(t, sluice.Unavailable, code, c.name)
		release()
		require.Equal(t, c.then, sluice.CodeOf(c.call(t.Context())), c.name)
	}
}

// holds lets the next withdrawals of a replica wait until release is called.
func (r *replica) holds() (release func()) {
	hold := make(chan struct{})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hold, r.withdrawn = hold, 0
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.hold = nil
		close(hold)
	}
}

// isHeld reports whether a withdrawal has begun since holds was called.
func (r *replica) isHeld() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.withdrawn > 0
}
