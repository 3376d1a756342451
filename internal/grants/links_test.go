package grants_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/grants"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/pkg/sluice"
)

func linkTo(grant string) grants.LinkWish {
	return grants.LinkWish{Grant: grant, TTL: grants.DefaultSession, LinkTTL: grants.DefaultLink}
}

func linkFor(t *testing.T, p sluice.Principal, object string) grants.LinkWish {
	t.Helper()
	o, err := sluice.ParseObject(object)
	require.NoError(t, err)
	return grants.LinkWish{Principal: p, Object: &o, TTL: grants.DefaultSession, LinkTTL: grants.DefaultLink}
}

func (r *replica) link(t *testing.T, by sluice.Caller, w grants.LinkWish) grants.MadeLink {
	t.Helper()
	made, err := r.Link(t.Context(), by, w)
	require.NoError(t, err)
	return made
}

func (r *replica) refuses(t *testing.T, code string, reason string) {
	t.Helper()
	_, err := r.Open(t.Context(), code)
	var why *sluice.Error
	require.ErrorAs(t, err, &why)
	require.Equal(t, sluice.Unauthenticated, why.Code)
	require.Equal(t, reason, why.Details["reason"])
}

// acts returns the entries of the ledger for links and sessions, oldest first.
func (r *replica) acts(t *testing.T) (all []sluice.LedgerEntry) {
	t.Helper()
	page, _, err := r.store.Ledger().Entries(t.Context(), model.LedgerQuery{Limit: 100})
	require.NoError(t, err)
	slices.Reverse(page)
	for _, e := range page {
		if strings.HasPrefix(e.Action, "portal.") {
			all = append(all, e)
		}
	}
	return all
}

// A code opens one session, at whichever replica it is used, however many try at once.
func TestLink_OpensOneSessionAtAnyReplica(t *testing.T) {
	t.Parallel()
	server := natstest.New(t)
	a, b := start(t, server, "a"), start(t, server, "b")
	ann := a.mint(t, root, wish(t, "user:ann", "path:acme/o/**", "read", "publish", "subscribe"))
	w := linkTo(ann.ID)
	w.Next = "/portal/attempts"
	made := a.link(t, root, w)
	require.NotContains(t, made.Code, ann.ID)

	var mu sync.Mutex
	var opened []grants.Session
	var tries sync.WaitGroup
	for i := range 8 {
		tries.Go(func() {
			s, err := []*replica{a, b}[i%2].Open(t.Context(), made.Code)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				opened = append(opened, s)
			} else {
				require.Equal(t, sluice.Unauthenticated, sluice.CodeOf(err))
			}
		})
	}
	tries.Wait()
	require.Len(t, opened, 1)
	s := opened[0]
	require.Equal(t, "/portal/attempts", s.Next)
	require.Equal(t, []sluice.Verb{sluice.VerbRead, sluice.VerbSubscribe}, s.Verbs)
	require.Equal(t, ann.Object, s.Object)
	require.Equal(t, made.SessionUntil, s.ExpiresAt)
	who := b.who(t, s.Token)
	require.Equal(t, sluice.Caller{Principal: "user:ann", Grant: s.ID, Lasting: ann.ID}, who)
	require.Equal(t, ann.ID, who.Binding(), "what it creates outlasts it")
	b.refuses(t, made.Code, "token_replay")

	entries := a.acts(t)
	require.Len(t, entries, 4, "made, opened, refused once: as intended and failed")
	require.Equal(t, []string{"root", sluice.ActionPortalLink}, []string{entries[0].Actor, entries[0].Action})
	require.True(t, slices.ContainsFunc(entries, func(e sluice.LedgerEntry) bool {
		return e.Actor == "user:ann" && e.Grant == ann.ID && e.Resource == s.ID && e.Outcome == sluice.ChangeDone
	}), "who opened it")
	for _, e := range entries {
		require.NotContains(t, string(e.New), made.Code)
	}

	_, err := a.Revoke(t.Context(), root, s.ID)
	require.NoError(t, err)
	_, err = b.Authenticate(t.Context(), s.Token)
	require.Equal(t, sluice.Unauthenticated, sluice.CodeOf(err))
	require.Equal(t, "user:ann", string(b.who(t, ann.Token).Principal), "its grant stays")
}

// The link, the session and what may be linked to are bounded by the grant, and by its caller's rights.
func TestLink_IsBoundedByTheGrant(t *testing.T) {
	t.Parallel()
	a := start(t, natstest.New(t), "a")
	boss := a.mint(t, root, wish(t, "user:boss", "scope:acme", "admin"))
	by := a.who(t, boss.Token)
	ann := a.mint(t, by, wish(t, "user:ann", "scope:acme", "subscribe"))
	everything := a.mint(t, root, wish(t, "user:ops", "*", "admin"))
	till := a.mint(t, root, wish(t, "user:till", "scope:acme", "publish"))
	admin := a.mint(t, root, wish(t, "user:other", "scope:acme", "admin"))
	stranger := a.who(t, a.mint(t, root, wish(t, "user:eve", "scope:other", "admin")).Token)
	holder := a.who(t, ann.Token)

	made := a.link(t, holder, linkTo(ann.ID))
	require.Equal(t, []sluice.Verb{sluice.VerbSubscribe}, made.Verbs)
	long := linkTo(ann.ID)
	long.TTL = grants.MaxSession
	require.Equal(t, ann.ExpiresAt, a.link(t, by, long).SessionUntil, "no later than the grant")
	s, err := a.Open(t.Context(), made.Code)
	require.NoError(t, err)
	session := a.who(t, s.Token)
	gone := a.mint(t, root, wish(t, "user:gone", "scope:acme", "read"))
	_, err = a.Revoke(t.Context(), root, gone.ID)
	require.NoError(t, err)

	both, short, forever := linkFor(t, "user:x", "scope:acme"), linkTo(ann.ID), linkTo(ann.ID)
	both.Grant, short.TTL, forever.LinkTTL = ann.ID, time.Second, grants.MaxLink+1
	for name, c := range map[string]struct {
		by   sluice.Caller
		w    grants.LinkWish
		code sluice.Code
	}{
		"nothing":                              {root, linkTo(""), sluice.InvalidRequest},
		"both":                                 {root, both, sluice.InvalidRequest},
		"a short session":                      {root, short, sluice.InvalidRequest},
		"a long link":                          {root, forever, sluice.InvalidRequest},
		"everything":                           {root, linkTo(everything.ID), sluice.InvalidRequest},
		"a session":                            {root, linkTo(s.ID), sluice.InvalidRequest},
		"no verb of the portal":                {root, linkTo(till.ID), sluice.CapabilityRequired},
		"an ended grant":                       {root, linkTo(gone.ID), sluice.Conflict},
		"no grant":                             {root, linkTo("none"), sluice.NotFound},
		"an admin that gave it not":            {a.who(t, admin.Token), linkTo(ann.ID), sluice.Forbidden},
		"a stranger":                           {stranger, linkTo(ann.ID), sluice.NotFound},
		"a holder's for its giver":             {holder, linkTo(boss.ID), sluice.NotFound},
		"from a session":                       {session, linkTo(ann.ID), sluice.Forbidden},
		"from a session for another principal": {session, linkFor(t, "user:x", "entity:acme/urn:order:7"), sluice.Forbidden},
		"more than the caller has":             {holder, linkFor(t, "user:x", "scope:acme"), sluice.CapabilityRequired},
		"another object":                       {by, linkFor(t, "user:x", "scope:other"), sluice.CapabilityRequired},
		"the system for one who is not root":   {by, linkFor(t, "system:x", "scope:acme"), sluice.CapabilityRequired},
	} {
		_, err := a.Link(t.Context(), c.by, c.w)
		require.Equal(t, c.code, sluice.CodeOf(err), "%s: %v", name, err)
	}
}

// A principal and an object get the grant that they have, so that what a session creates has the
// same owner in the next; without one, a grant for as long as possible.
func TestLink_FindsTheStandingGrant(t *testing.T) {
	t.Parallel()
	a := start(t, natstest.New(t), "a")
	first := a.link(t, root, linkFor(t, "user:ann", "path:acme/o/**"))
	second := a.link(t, root, linkFor(t, "user:ann", "path:acme/o/**"))
	require.Equal(t, first.Grant, second.Grant)
	g, err := a.Grant(root, first.Grant)
	require.NoError(t, err)
	require.WithinDuration(t, time.Now().Add(sluice.MaxGrantAge), g.ExpiresAt, patience)
	for _, object := range []string{"path:acme/p/**", "scope:acme", "entity:acme/urn:order:7"} {
		require.NotEqual(t, first.Grant, a.link(t, root, linkFor(t, "user:ann", object)).Grant)
	}
	boss := a.who(t, a.mint(t, root, wish(t, "user:boss", "scope:acme", "admin")).Token)
	own := a.link(t, boss, linkFor(t, "user:ann", "path:acme/o/**"))
	require.NotEqual(t, first.Grant, own.Grant, "one of the caller's")
	require.Equal(t, own.Grant, a.link(t, boss, linkFor(t, "user:ann", "path:acme/o/**")).Grant)
	asked := wish(t, "user:ann", "path:acme/q/**", "read", "subscribe")
	asked.OnBehalfOf = "user:boss"
	require.NotEqual(t, a.mint(t, boss, asked).ID, a.link(t, boss, linkFor(t, "user:ann", "path:acme/q/**")).Grant, "not one on behalf of another")
	s, err := a.Open(t.Context(), own.Code)
	require.NoError(t, err)
	ann := sluice.Caller{Principal: "user:ann", Grant: own.Grant}
	require.NotEqual(t, s.ID, a.link(t, ann, linkFor(t, "user:ann", "path:acme/o/**")).Grant, "not a session")
	_, err = a.Revoke(t.Context(), boss, own.Grant)
	require.NoError(t, err)
	require.NotEqual(t, own.Grant, a.link(t, boss, linkFor(t, "user:ann", "path:acme/o/**")).Grant, "not one that has ended")
}

// What cannot be opened is told apart, and the first refusal of a link is in the ledger.
func TestOpen_RefusesEndedLinks(t *testing.T) {
	t.Parallel()
	a := start(t, natstest.New(t), "a")
	ann := a.mint(t, root, wish(t, "user:ann", "scope:acme", "read"))
	soon := linkTo(ann.ID)
	soon.LinkTTL = grants.MinLink
	short, made := a.link(t, root, soon), a.link(t, root, linkTo(ann.ID))
	for _, code := range []string{"", "plk_", made.Code + "A", "tkt_" + made.Code[4:], strings.ToUpper(made.Code), made.Code[:len(made.Code)-1] + "."} {
		a.refuses(t, code, "malformed")
	}
	for _, code := range []string{made.Code[:40] + strings.Repeat("A", len(made.Code)-40), "plk_" + strings.Repeat("0", 32) + made.Code[36:]} {
		a.refuses(t, code, "expired")
	}
	require.Eventually(t, func() bool { return time.Now().After(short.ExpiresAt) }, patience, 10*time.Millisecond)
	a.refuses(t, short.Code, "expired")
	a.refuses(t, short.Code, "expired")
	_, err := a.Revoke(t.Context(), root, ann.ID)
	require.NoError(t, err)
	a.refuses(t, made.Code, "revoked")
	entries := a.acts(t)
	require.Len(t, entries, 6, "two made, two refused")
	for _, e := range entries[2:] {
		require.Equal(t, []string{string(sluice.Anonymous), sluice.ActionPortalSession, ann.ID}, []string{e.Actor, e.Action, e.Resource})
	}
	require.Equal(t, sluice.ChangeFailed, entries[5].Outcome)
}

// A grant that another replica has issued a moment ago is waited for.
func TestLink_FindsGrantsOfOtherReplicas(t *testing.T) {
	t.Parallel()
	server := natstest.New(t)
	a, b := start(t, server, "a"), start(t, server, "b")
	for i := range 15 {
		g := a.mint(t, root, wish(t, sluice.Principal(fmt.Sprint("user:ann", i)), "scope:acme", "read"))
		made := b.link(t, root, linkTo(g.ID))
		_, err := a.Open(t.Context(), made.Code)
		require.NoError(t, err)
	}
}

// Links that are not used are bounded for each principal; used ones do not count.
func TestLink_OpenOnesAreBounded(t *testing.T) {
	t.Parallel()
	a := start(t, natstest.New(t), "a")
	ann := a.mint(t, root, wish(t, "user:ann", "scope:acme", "read"))
	var last grants.MadeLink
	for range 20 {
		last = a.link(t, root, linkTo(ann.ID))
	}
	_, err := a.Link(t.Context(), root, linkTo(ann.ID))
	require.Equal(t, sluice.QuotaExceeded, sluice.CodeOf(err))
	a.link(t, root, linkFor(t, "user:bob", "scope:acme"))
	_, err = a.Open(t.Context(), last.Code)
	require.NoError(t, err)
	a.link(t, root, linkTo(ann.ID))
}
