package authz_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/authz"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

const (
	yes       = sluice.Code("")
	hidden    = sluice.NotFound
	incapable = sluice.CapabilityRequired
	refused   = sluice.Forbidden
	unsure    = sluice.Unavailable
)

// S0-54: what is wanted has to be part of what the grant is for.
func TestGrant_CoversItsVerbsOnItsObject(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		object string
		verbs  []sluice.Verb
		want   sluice.Verb
		where  string
		code   sluice.Code
	}{
		{"scope:acme", []sluice.Verb{"read"}, "read", "/a", yes},
		{"scope:acme", []sluice.Verb{"read"}, "read", "/**", yes},
		{"scope:acme", []sluice.Verb{"read"}, "read", "", yes},
		{"scope:acme", []sluice.Verb{"read"}, "subscribe", "/a", incapable},
		{"scope:acme", []sluice.Verb{"read", "subscribe"}, "publish", "/a", incapable},
		{"scope:acme", []sluice.Verb{"admin"}, "publish", "/a", yes},
		{"scope:acme", []sluice.Verb{"admin"}, "admin", "", yes},
		{"scope:other", []sluice.Verb{"admin"}, "read", "/a", hidden},
		{"*", []sluice.Verb{"read"}, "read", "/a", yes},
		{"*", []sluice.Verb{"read"}, "admin", "", incapable},
		{"path:acme/a/*", []sluice.Verb{"read"}, "read", "/a/b", yes},
		{"path:acme/a/*", []sluice.Verb{"read"}, "read", "/a/b/c", incapable},
		{"path:acme/a/**", []sluice.Verb{"subscribe"}, "subscribe", "/a/*/c", yes},
		{"path:acme/a/**", []sluice.Verb{"subscribe"}, "subscribe", "/**", incapable},
		{"path:acme/**", []sluice.Verb{"admin"}, "admin", "", incapable},

		// S4-33: what the server itself writes is for admins of the whole namespace.
		{"scope:acme", []sluice.Verb{"read", "subscribe"}, "read", "/_sys/subscriptions/s", incapable},
		{"scope:acme", []sluice.Verb{"read", "subscribe"}, "subscribe", "/_sys/**", incapable},
		{"scope:acme", []sluice.Verb{"admin"}, "subscribe", "/_sys/**", yes},
		{"path:acme/**", []sluice.Verb{"admin"}, "subscribe", "/_sys/**", incapable},
		{"path:acme/**", []sluice.Verb{"admin"}, "read", "/_sys/x", incapable},
	} {
		w := newWorld(t)
		g := w.grant("g", ann, tt.object, tt.verbs...)
		require.Equal(t, tt.code, w.may(caller(g), tt.want, tt.where), "%s for %s: %s %s", tt.verbs, tt.object, tt.want, tt.where)
	}
}

func TestRoot_MayDoEverythingUnknownCallersNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.acl(ann, line(sluice.TierAdmin, "/**"))
	w.label(sluice.Label{Level: sluice.LevelTopSecret})
	require.Equal(t, yes, w.may(sluice.Caller{Principal: sluice.Root}, "admin", ""))
	require.Equal(t, yes, w.may(sluice.Caller{Principal: sluice.Root}, "read", "/_sys/x"))
	require.Equal(t, unsure, w.may(sluice.Caller{}, "read", "/a"))
	require.Equal(t, unsure, w.may(sluice.Caller{Principal: sluice.Root, Grant: "made up"}, "read", "/a"))
	require.Equal(t, unsure, w.may(sluice.Caller{Principal: ann}, "read", "/a"))
}

// An access list is in force from its first line on; then grant and list have to agree.
func TestACL_NarrowsGrants(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.grant("g", ann, "scope:acme", sluice.Verbs()...)
	require.Equal(t, yes, w.may(caller(g), "admin", ""), "no list")

	w.acl("user:other", line(sluice.TierAdmin, "/**"))
	require.Equal(t, hidden, w.may(caller(g), "read", "/a"), "not on the list: C14")
	require.Equal(t, hidden, sluice.CodeOf(w.Sees(caller(g), "acme", w.now)))

	for _, tt := range []struct {
		entry sluice.Access
		want  sluice.Verb
		where string
		code  sluice.Code
	}{
		{line(sluice.TierExistence, "/**"), "read", "/a", refused},
		{line(sluice.TierRead, "/**"), "read", "/a", yes},
		{line(sluice.TierRead, "/**"), "subscribe", "/**", yes},
		{line(sluice.TierRead, "/**"), "publish", "/a", refused},
		{line(sluice.TierWrite, "/**"), "publish", "/a", yes},
		{line(sluice.TierWrite, "/**"), "admin", "", refused},
		{line(sluice.TierAdmin, "/**"), "admin", "", yes},
		{line(sluice.TierAdmin, "/a/**"), "admin", "", refused},
		{line(sluice.TierAdmin, "/a/**"), "admin", "/a/b", yes},
		{line(sluice.TierRead, "/a/**"), "subscribe", "/**", refused},
		{line(sluice.TierRead, "/a/**"), "subscribe", "/a/*", yes},
		{line(sluice.TierRead, "/**"), "read", "/_sys/x", refused},
		{line(sluice.TierAdmin, "/**"), "read", "/_sys/x", yes},
	} {
		w.acl(ann, tt.entry)
		require.Equal(t, tt.code, w.may(caller(g), tt.want, tt.where), "%s on %s: %s %s", tt.entry.Tier, tt.entry.Pattern, tt.want, tt.where)
	}
	w.acl(ann, line(sluice.TierRead, "/a/**"), line(sluice.TierWrite, "/b"))
	require.Equal(t, yes, w.may(caller(g), "read", "/a/x"))
	require.Equal(t, yes, w.may(caller(g), "publish", "/b"))
	require.Equal(t, refused, w.may(caller(g), "publish", "/a/x"))

	w.acl(ann)
	require.Equal(t, hidden, w.may(caller(g), "read", "/a"), "taken off the list")
}

// S3-105, S3-106: a caller without clearance for a namespace does not learn of it.
func TestClearance_DominatesLabels(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.grant("g", ann, "scope:acme", "read")
	label := sluice.Label{Level: sluice.LevelSecret, Compartments: []string{"finance", "legal"}}
	w.label(label)
	for _, tt := range []struct {
		clearance sluice.Label
		code      sluice.Code
	}{
		{sluice.Label{}, hidden},
		{sluice.Label{Level: sluice.LevelTopSecret}, hidden},
		{sluice.Label{Level: sluice.LevelTopSecret, Compartments: []string{"finance"}}, hidden},
		{sluice.Label{Level: sluice.LevelConfidential, Compartments: []string{"finance", "legal"}}, hidden},
		{label, yes},
		{sluice.Label{Level: sluice.LevelTopSecret, Compartments: []string{"finance", "legal", "x"}}, yes},
	} {
		w.clear(ann, tt.clearance)
		require.Equal(t, tt.code, w.may(caller(g), "read", "/a"), "%+v", tt.clearance)
	}
}

// S4-60: a delegated principal never exceeds its delegator.
func TestDelegate_NeverExceedsItsDelegator(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	of := w.grant("of", ann, "scope:acme", "read", "subscribe")
	part := w.part("part", "of", bot, "scope:acme", "read", "subscribe")
	require.Equal(t, yes, w.may(caller(part), "subscribe", "/a/**"))

	w.acl(bot, line(sluice.TierAdmin, "/**"))
	require.Equal(t, hidden, w.may(caller(part), "read", "/a"), "its delegator is not on the list")
	w.acl(ann, line(sluice.TierRead, "/a/**"))
	require.Equal(t, yes, w.may(caller(part), "read", "/a/x"))
	require.Equal(t, refused, w.may(caller(part), "read", "/b"))
	require.Equal(t, incapable, w.may(caller(part), "publish", "/a/x"))

	w.label(sluice.Label{Level: sluice.LevelSecret})
	w.clear(bot, sluice.Label{Level: sluice.LevelTopSecret})
	require.Equal(t, hidden, w.may(caller(part), "read", "/a/x"), "its delegator is not cleared")
	w.clear(ann, sluice.Label{Level: sluice.LevelSecret})
	require.Equal(t, yes, w.may(caller(part), "read", "/a/x"))
	w.clear(bot, sluice.Label{})
	require.Equal(t, hidden, w.may(caller(part), "read", "/a/x"), "nor may it itself")
	w.clear(bot, sluice.Label{Level: sluice.LevelTopSecret})

	w.revoke(of)
	require.Equal(t, hidden, orIncapable(w.may(caller(part), "read", "/a/x")), "what it is a part of was revoked")
}

// orIncapable makes one of the two answers that say no.
func orIncapable(c sluice.Code) sluice.Code {
	if c == incapable {
		return hidden
	}
	return c
}

// A grant can be issued on behalf of a principal that has none.
func TestGrant_OnBehalfIsBoundByThePrincipalsAccess(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.grant("g", bot, "scope:acme", "read")
	g.OnBehalfOf = ann
	w.save(g)
	w.acl(bot, line(sluice.TierRead, "/**"))
	require.Equal(t, hidden, w.may(caller(g), "read", "/a"))
	w.acl(ann, line(sluice.TierRead, "/a"))
	require.Equal(t, yes, w.may(caller(g), "read", "/a"))
	require.Equal(t, refused, w.may(caller(g), "read", "/b"))
	w.label(sluice.Label{Level: sluice.LevelInternal})
	w.clear(bot, sluice.Label{Level: sluice.LevelInternal})
	require.Equal(t, hidden, w.may(caller(g), "read", "/a"))
}

func TestGrant_EndsWithItsChain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.grant("a", ann, "scope:acme", "read")
	w.part("b", "a", bot, "scope:acme", "read")
	c := w.part("c", "b", "service:c", "scope:acme", "read")
	require.Equal(t, yes, w.may(caller(c), "read", "/x"))

	a.ExpiresAt = w.now
	w.save(a)
	require.NotEqual(t, yes, w.may(caller(c), "read", "/x"), "expired at this moment")
	a.ExpiresAt = w.now.Add(time.Nanosecond)
	w.save(a)
	require.Equal(t, yes, w.may(caller(c), "read", "/x"))
	w.revoke(a)
	require.NotEqual(t, yes, w.may(caller(c), "read", "/x"))
	require.Equal(t, model.Lost, w.Decide(subscriptionOf(c, "/**"), event("/x", 1), w.now))
}

// What cannot be known is not let out, and not taken away either.
func TestIndex_StaleOneDecidesNothing(t *testing.T) {
	t.Parallel()
	x := authz.NewIndex()
	w := &world{Index: x, t: t, now: time.Now()}
	g := w.grant("g", ann, "scope:acme", "subscribe")
	sub := subscriptionOf(g, "/**")
	ofRoot := &sluice.Subscription{ID: "r", Namespace: "acme", Pattern: "/**", Lifecycle: sluice.Lifecycle{CreatedBy: "root"}}
	require.Equal(t, model.Undecided, x.Decide(sub, event("/a", 1), w.now), "it has not caught up")
	require.Equal(t, model.Undecided, x.Decide(ofRoot, event("/a", 1), w.now), "there may be a tombstone")
	require.Equal(t, unsure, w.may(caller(g), "subscribe", "/a"))

	x.CaughtUp()
	require.Equal(t, model.Pass, x.Decide(sub, event("/a", 1), w.now))
	require.Equal(t, model.Pass, x.Decide(ofRoot, event("/a", 1), w.now))

	x.Until(w.now)
	require.Equal(t, model.Undecided, x.Decide(sub, event("/a", 1), w.now), "revocations may be on their way")
	require.Equal(t, model.Undecided, x.Holds(sub, w.now))
	x.Until(w.now.Add(time.Second))
	require.Equal(t, model.Pass, x.Decide(sub, event("/a", 1), w.now))

	other := *sub
	other.Grant = "made a moment ago elsewhere"
	require.Equal(t, model.Undecided, x.Decide(&other, event("/a", 1), w.now))
	require.Equal(t, model.Undecided, x.Holds(&other, w.now))
}

// S0-57…63: the gate, in its order.
func TestGate_DecidesForEveryEvent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.grant("g", ann, "scope:acme", "subscribe")
	sub := subscriptionOf(g, "/**")
	decide := func(ev *sluice.Event) model.Decision { return w.Decide(sub, ev, w.now) }
	raised := func(label string) *sluice.Event {
		ev := event("/a", 1)
		ev.Extensions = map[string]string{sluice.AttributeClassification: label}
		return ev
	}
	require.Equal(t, model.Pass, decide(event("/a", 1)))

	w.acl(ann, line(sluice.TierRead, "/a/**"))
	require.Equal(t, model.Pass, decide(event("/a/b", 1)), "S0-59: the event's path counts")
	require.Equal(t, model.Lost, decide(event("/b", 1)))
	w.acl(ann, line(sluice.TierRead, "/**"))

	require.Equal(t, model.Pass, decide(raised("PUBLIC")))
	require.Equal(t, model.Withhold, decide(raised("SECRET")))
	require.Equal(t, model.Withhold, decide(raised("PUBLIC/finance")))
	require.Equal(t, model.Withhold, decide(raised("no label")), "an unreadable label is withheld from every caller")
	w.clear(ann, sluice.Label{Level: sluice.LevelSecret, Compartments: []string{"finance"}})
	require.Equal(t, model.Pass, decide(raised("SECRET/finance")))
	require.Equal(t, model.Withhold, decide(raised("SECRET/finance,legal")))
	require.Equal(t, model.Withhold, decide(raised("no label")))

	w.put(streams.TombstoneKey("acme", "/a"), authz.Record{Tombstone: &sluice.Tombstone{Namespace: "acme", Path: "/a", UpTo: 7}})
	require.Equal(t, model.Withhold, decide(event("/a", 7)))
	require.Equal(t, model.Pass, decide(event("/a", 8)), "what came later")
	require.Equal(t, model.Pass, decide(event("/a/b", 7)))
	ofRoot := &sluice.Subscription{ID: "r", Namespace: "acme", Pattern: "/**", Lifecycle: sluice.Lifecycle{CreatedBy: "root"}}
	require.Equal(t, model.Withhold, w.Decide(ofRoot, event("/a", 7), w.now), "root's too")

	w.label(sluice.Label{Level: sluice.LevelTopSecret})
	require.Equal(t, model.Lost, decide(event("/a", 8)))
	w.label(sluice.Label{})
	w.revoke(g)
	require.Equal(t, model.Lost, decide(event("/a", 8)))
}

func TestSubscription_HoldsWhileItsOwnerHasSomeAccess(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.grant("g", ann, "scope:acme", "subscribe")
	sub := subscriptionOf(g, "/a/*")
	require.Equal(t, model.Pass, w.Holds(sub, w.now))
	w.acl(ann, line(sluice.TierRead, "/a/b"))
	require.Equal(t, model.Pass, w.Holds(sub, w.now))
	w.acl(ann, line(sluice.TierRead, "/b/**"))
	require.Equal(t, model.Lost, w.Holds(sub, w.now))
	w.acl(ann, line(sluice.TierExistence, "/**"))
	require.Equal(t, model.Lost, w.Holds(sub, w.now))
	w.acl(ann, line(sluice.TierRead, "/**"))
	require.Equal(t, model.Pass, w.Holds(sub, w.now))
	require.Equal(t, model.Lost, w.Holds(sub, w.now.Add(25*time.Hour)), "expired")
}

// A change that takes rights away names the principals whose deliveries have to be stopped, and no other change does.
func TestTakes_NamesTheConcerned(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.grant("g", ann, "scope:acme", "subscribe")
	part := w.part("part", "g", bot, "scope:acme", "subscribe")
	stranger := w.grant("stranger", "user:eve", "scope:acme", "subscribe")
	mine, its, hers := subscriptionOf(g, "/**"), subscriptionOf(part, "/**"), subscriptionOf(stranger, "/**")
	elsewhere := *mine
	elsewhere.Namespace = "other"

	concerned := func(before, after authz.Record) (who []*sluice.Subscription) {
		touched := w.Takes(before, after)
		if touched == nil {
			return nil
		}
		who = []*sluice.Subscription{}
		for _, sub := range []*sluice.Subscription{mine, its, hers, &elsewhere} {
			if touched(sub) {
				who = append(who, sub)
			}
		}
		return who
	}
	all := []*sluice.Subscription{mine, its, hers}
	chain := []*sluice.Subscription{mine, its}
	both := []*sluice.Subscription{mine, its, &elsewhere}

	revoked, longer, shorter := *g, *g, *g
	at := w.now
	revoked.RevokedAt = &at
	longer.ExpiresAt = g.ExpiresAt.Add(time.Hour)
	shorter.ExpiresAt = g.ExpiresAt.Add(-time.Hour)
	granted := func(g authz.Granted) authz.Record { return authz.Record{Grant: &g} }
	require.Nil(t, concerned(authz.Record{}, granted(*g)))
	require.Nil(t, concerned(granted(*g), granted(longer)))
	require.Equal(t, both, concerned(granted(*g), granted(shorter)))
	require.Equal(t, both, concerned(granted(*g), granted(revoked)))

	acl := func(entries ...sluice.Access) authz.Record {
		return authz.Record{ACL: &sluice.ACL{Namespace: "acme", Principal: ann, Entries: entries}}
	}
	read, more := line(sluice.TierRead, "/**"), line(sluice.TierWrite, "/a")
	require.Nil(t, concerned(acl(read), acl(read, more)))
	require.Equal(t, chain, concerned(acl(read, more), acl(more)))
	require.Equal(t, chain, concerned(acl(read), acl()))

	head := func(closed bool) authz.Record {
		return authz.Record{Admins: &authz.Admins{Namespace: "acme", Closed: closed}}
	}
	require.Equal(t, all, concerned(authz.Record{}, head(true)))
	require.Nil(t, concerned(head(true), head(true)))

	profile := func(l sluice.Level) authz.Record {
		return authz.Record{Profile: &sluice.Profile{Principal: ann, Clearance: sluice.Label{Level: l}}}
	}
	require.Nil(t, concerned(profile(sluice.LevelInternal), profile(sluice.LevelSecret)))
	require.Equal(t, both, concerned(profile(sluice.LevelSecret), profile(sluice.LevelInternal)))

	label := func(l sluice.Level) authz.Record {
		return authz.Record{Label: &authz.Label{Namespace: "acme", Label: sluice.Label{Level: l}}}
	}
	require.Equal(t, all, concerned(authz.Record{}, label(sluice.LevelSecret)))
	require.Nil(t, concerned(label(sluice.LevelSecret), label(sluice.LevelPublic)))
	require.Equal(t, all, concerned(authz.Record{}, authz.Record{Tombstone: &sluice.Tombstone{Namespace: "acme", Path: "/a", UpTo: 1}}))
}

// A record that is changed or goes leaves nothing of what it said before.
func TestIndex_ForgetsReplacedRecords(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.grant("g", ann, "scope:acme", "read")
	w.clear(ann, sluice.Label{Level: sluice.LevelSecret})
	w.label(sluice.Label{Level: sluice.LevelSecret})
	require.Equal(t, yes, w.may(caller(g), "read", "/a"))
	w.Remove(streams.ProfileKey(ann), w.revision+1)
	require.Equal(t, hidden, w.may(caller(g), "read", "/a"))
	w.Remove(streams.LabelKey("acme"), w.revision+2)
	require.Equal(t, yes, w.may(caller(g), "read", "/a"))
	w.Remove(streams.GrantKey("g"), w.revision+3)
	require.Equal(t, unsure, w.may(caller(g), "read", "/a"))

	w.put(streams.PresenceKey("a"), authz.Record{Replica: &authz.Presence{ID: "a", Settled: 5}})
	w.put(streams.PresenceKey("b"), authz.Record{Replica: &authz.Presence{ID: "b", Settled: 3}})
	require.EqualValues(t, 3, w.Settled())
	w.Remove(streams.PresenceKey("b"), w.revision+1)
	require.EqualValues(t, 5, w.Settled(), "a replica that is gone is not waited for")
}

// A machine that was suspended has a clock that stood still, and one that jumped.
func TestReady_AsksBothClocks(t *testing.T) {
	t.Parallel()
	x := authz.NewIndex()
	x.CaughtUp()
	began := time.Now()
	x.Until(began.Add(10 * time.Second))
	require.NoError(t, x.Ready(began.Add(9*time.Second)))
	require.Error(t, x.Ready(began.Add(11*time.Second)))
	require.Error(t, x.Ready(began.Round(0).Add(11*time.Second)), "only the wall clock went on")
}
