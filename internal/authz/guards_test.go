package authz_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/authz"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

func secret(compartments ...string) sluice.Label {
	return sluice.Label{Level: sluice.LevelSecret, Compartments: compartments}
}

// onBehalf gives bot a grant that speaks for ann, who has none.
func onBehalf(w *world, verbs ...sluice.Verb) *authz.Granted {
	g := w.grant("g", bot, "scope:acme", verbs...)
	g.OnBehalfOf = ann
	w.save(g)
	return g
}

func raised(label string) *sluice.Event {
	ev := event("/a", 1)
	ev.Extensions = map[string]string{sluice.AttributeClassification: label}
	return ev
}

// An event's own label binds the one who acts and the one for whom it acts.
func TestShows_AsksTheDelegator(t *testing.T) { // S0-62, S4-60
	t.Parallel()
	w := newWorld(t)
	g := onBehalf(w, "subscribe")
	sub := subscriptionOf(g, "/**")
	decide := func() model.Decision { return w.Decide(sub, raised("SECRET/finance"), w.now) }

	w.clear(bot, secret("finance"))
	require.Equal(t, model.Withhold, decide(), "ann is cleared for nothing")
	w.clear(ann, secret())
	require.Equal(t, model.Withhold, decide(), "nor for the compartment")
	w.clear(ann, secret("finance"))
	require.Equal(t, model.Pass, decide())
	w.clear(bot, sluice.Label{})
	require.Equal(t, model.Withhold, decide(), "bot itself")
}

// The label of a namespace binds both as well, and both may be cleared.
func TestRequire_AsksTheDelegator(t *testing.T) { // S3-105, S4-60
	t.Parallel()
	w := newWorld(t)
	g := onBehalf(w, "read")
	w.label(secret())
	w.clear(bot, secret())
	require.Equal(t, hidden, w.may(caller(g), "read", "/a"))
	w.clear(ann, secret())
	require.Equal(t, yes, w.may(caller(g), "read", "/a"))
}

// A subscription or feed holds as long as all in its chain may have some of it: by verb, object and list.
func TestMay_AsksTheWholeChain(t *testing.T) { // S0-57…S0-64, S4-60
	t.Parallel()
	may := func(w *world, g *authz.Granted, v sluice.Verb, pattern sluice.Pattern) model.Decision {
		return w.May(caller(g), v, sluice.Object{Namespace: "acme", Pattern: pattern}, w.now)
	}
	t.Run("the verb", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		g := w.grant("g", ann, "scope:acme", "publish", "read")
		require.Equal(t, model.Lost, may(w, g, "subscribe", "/a/**"))
		require.Equal(t, model.Pass, may(w, g, "read", "/a/**"))
	})
	t.Run("the object", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		g := w.grant("g", ann, "path:acme/a/**", "subscribe")
		require.Equal(t, model.Lost, may(w, g, "subscribe", "/b/**"))
		require.Equal(t, model.Pass, may(w, g, "subscribe", "/*/x"), "some of it")
	})
	t.Run("a part is bound by the whole", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.grant("of", ann, "path:acme/a/**", "subscribe", "read")
		part := w.part("part", "of", bot, "scope:acme", "subscribe", "read", "publish")
		require.Equal(t, model.Lost, may(w, part, "subscribe", "/b/**"))
		require.Equal(t, model.Lost, may(w, part, "publish", "/a/**"))
		require.Equal(t, model.Pass, may(w, part, "read", "/a/**"))
	})
	t.Run("the list of the one for whom it acts", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		g := onBehalf(w, "subscribe")
		w.acl(bot, line(sluice.TierRead, "/**"))
		w.acl(ann, line(sluice.TierRead, "/b/**"))
		require.Equal(t, model.Lost, may(w, g, "subscribe", "/a/**"), "ann lost /a: the subscription ends, the idle feed closes")
		require.Equal(t, model.Pass, may(w, g, "subscribe", "/b/**"))
		w.acl(ann, line(sluice.TierAdmin, "/**"))
		require.Equal(t, model.Pass, may(w, g, "subscribe", "/_sys/**"), "an admin of everything has the system's paths too") // Everything
		w.acl(bot, line(sluice.TierRead, "/b/**"))
		require.Equal(t, model.Lost, may(w, g, "subscribe", "/a/**"), "bot lost it")
	})
}

// A list that is emptied and opened again leaves the decision to the grants.
func TestRequire_OpenListBindsNoCaller(t *testing.T) { // C14
	t.Parallel()
	w := newWorld(t)
	g := w.grant("g", ann, "scope:acme", "read")
	head := func(closed bool) authz.Record {
		return authz.Record{Admins: &authz.Admins{Namespace: "acme", Closed: closed}}
	}
	w.put(streams.ACLKey("acme", ""), head(true))
	require.Equal(t, hidden, w.may(caller(g), "read", "/a"))
	w.put(streams.ACLKey("acme", ""), head(false))
	require.Equal(t, yes, w.may(caller(g), "read", "/a"))
	w.put(streams.ACLKey("acme", ""), head(true))
	w.Remove(streams.ACLKey("acme", ""), w.revision+1)
	require.Equal(t, yes, w.may(caller(g), "read", "/a"), "the record is gone")
}

// What is not stored yet has no sequence, and no tombstone is about it.
func TestShows_TombstoneIsAboutStoredEvents(t *testing.T) { // S4-90
	t.Parallel()
	w := newWorld(t)
	sub := subscriptionOf(w.grant("g", ann, "scope:acme", "subscribe"), "/**")
	require.Equal(t, model.Pass, w.Decide(sub, event("/a", 0), w.now), "a sample")
	key := streams.TombstoneKey("acme", "/a")
	w.put(key, authz.Record{Tombstone: &sluice.Tombstone{Namespace: "acme", Path: "/a", UpTo: 1}})
	require.Equal(t, model.Pass, w.Decide(sub, event("/a", 0), w.now))
	require.Equal(t, model.Withhold, w.Decide(sub, event("/a", 1), w.now))
	w.Remove(key, w.revision+1)
	require.Equal(t, model.Pass, w.Decide(sub, event("/a", 1), w.now))
}

// A caller that has a verb in a namespace has it by every grant of the chain.
func TestSome_AsksTheWholeChain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.grant("of", ann, "scope:acme", "read")
	part := w.part("part", "of", bot, "path:acme/a/**", "read", "publish")
	require.Equal(t, yes, sluice.CodeOf(w.Some(caller(part), "read", "acme", w.now)))
	require.Equal(t, incapable, sluice.CodeOf(w.Some(caller(part), "publish", "acme", w.now)))
	require.Equal(t, hidden, sluice.CodeOf(w.Some(caller(part), "read", "other", w.now)))
	require.Equal(t, hidden, sluice.CodeOf(w.Some(caller(part), "", "other", w.now)))
	require.Equal(t, yes, sluice.CodeOf(w.Some(caller(part), "", "acme", w.now)))
}

// A chain may be as deep as MaxGrantDepth, everywhere.
func TestIndex_FollowsTheDeepestChain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.grant("0", ann, "scope:acme", "read", "subscribe")
	last := first
	for i := range sluice.MaxGrantDepth {
		last = w.part(strconv.Itoa(i+1), strconv.Itoa(i), ann, "scope:acme", "read", "subscribe")
	}
	require.Equal(t, yes, w.may(caller(last), "read", "/a"))
	require.Equal(t, sluice.MaxGrantDepth, w.Parts("0", 100), "of parts, and of their parts")
	require.True(t, w.Same(caller(first), last.ID, sluice.Object{Namespace: "acme"}, w.now))
	require.True(t, w.Same(caller(last), first.ID, sluice.Object{Namespace: "acme"}, w.now))
	require.Equal(t, ann, w.Answers(caller(last), "acme", w.now))

	before := *first
	ended := *first
	ended.RevokedAt = &w.now
	touched := w.Takes(authz.Record{Grant: &before}, authz.Record{Grant: &ended})
	require.True(t, touched(subscriptionOf(last, "/**")))

	of := w.grant("of", "user:of", "scope:acme", "read")
	part := w.part("part", "of", ann, "scope:acme", "read")
	deep := part
	for i := range sluice.MaxGrantDepth - 1 {
		deep = w.part(fmt.Sprint("d", i), deep.ID, ann, "scope:acme", "read")
	}
	require.Equal(t, of.Principal, w.Answers(caller(deep), "acme", w.now), "who gave the name away")
}

// Who acts on behalf of a principal is concerned by what that principal loses.
func TestTakes_ConcernsDelegates(t *testing.T) { // S4-60
	t.Parallel()
	w := newWorld(t)
	g := onBehalf(w, "subscribe")
	sub := subscriptionOf(g, "/**")
	profile := func(l sluice.Label) authz.Record {
		return authz.Record{Profile: &sluice.Profile{Principal: ann, Clearance: l}}
	}
	touched := w.Takes(profile(secret()), profile(sluice.Label{}))
	require.NotNil(t, touched)
	require.True(t, touched(sub))
	require.False(t, touched(subscriptionOf(&authz.Granted{Grant: sluice.Grant{ID: "none"}}, "/**")), "a grant that is not known")
	require.Nil(t, w.Takes(authz.Record{}, profile(secret())), "there was no profile")
	require.Nil(t, w.Takes(authz.Record{}, authz.Record{ACL: &sluice.ACL{Namespace: "acme", Principal: ann}}), "there was no list")

	revoked := *g
	revoked.RevokedAt = &w.now
	require.Nil(t, w.Takes(authz.Record{Grant: &revoked}, authz.Record{Grant: &revoked}), "it had ended")
	head := func(closed bool) authz.Record {
		return authz.Record{Admins: &authz.Admins{Namespace: "acme", Closed: closed}}
	}
	require.Nil(t, w.Takes(head(false), head(false)), "an open list takes nothing")
	require.NotNil(t, w.Takes(head(false), head(true)))
	all := w.Takes(authz.Record{}, authz.Record{Unreadable: true})
	require.True(t, all(sub), "what cannot be read may take anything")
}

// Counting ends at the number asked for, and a part is counted where it is now.
func TestParts_CountsUpToANumber(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.grant("root1", ann, "scope:acme", "read")
	w.grant("root2", ann, "scope:acme", "read")
	for i := range 3 {
		id := fmt.Sprint("part", i)
		w.part(id, "root1", bot, "scope:acme", "read")
		w.part(id+"a", id, bot, "scope:acme", "read")
		w.part(id+"b", id, bot, "scope:acme", "read")
	}
	require.Equal(t, 2, w.Parts("", 100))
	require.Equal(t, 9, w.Parts("root1", 100))
	require.Equal(t, 3, w.Parts("root1", 1))
	require.Equal(t, 3, w.Parts("root1", 3))
	require.Zero(t, w.Parts("root2", 100))
	for _, id := range []string{"part0a", "part0b"} {
		w.Remove(streams.GrantKey(id), w.revision+1)
	}
	require.Zero(t, w.Parts("part0", 100))
	require.Equal(t, 7, w.Parts("root1", 100))
}

// Only grants that ended, and that nothing hangs on, are over.
func TestOver_KeepsGrantsWithParts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.acl(ann, line(sluice.TierRead, "/**"))
	w.grant("of", ann, "scope:acme", "read")
	w.part("part", "of", bot, "scope:acme", "read")
	long := w.grant("long", ann, "scope:acme", "read")
	long.ExpiresAt = w.now.Add(72 * time.Hour)
	w.save(long)
	session := w.part("session", "of", ann, "scope:acme", "read")
	session.Session = true
	w.save(session)
	require.Empty(t, w.Over(w.now, w.now))
	require.Equal(t, []string{streams.GrantKey("session")}, w.Over(w.now, w.now.Add(48*time.Hour)), "sooner than a grant")
	w.Remove(streams.GrantKey("session"), w.revision+1)
	require.Equal(t, []string{streams.GrantKey("part")}, w.Over(w.now.Add(48*time.Hour), w.now))
	w.Remove(streams.GrantKey("part"), w.revision+1)
	require.Equal(t, []string{streams.GrantKey("of")}, w.Over(w.now.Add(48*time.Hour), w.now))
	require.Equal(t, []string{streams.GrantKey("long")}, slices.Collect(maps.Keys(w.Records(func(r authz.Record) bool { return r.Grant != nil && r.Grant.ID == "long" }))))
}

// A call that waits for a revision is woken by every change, and by what says how long the index may decide.
func TestApplied_TellsOfEveryChange(t *testing.T) {
	t.Parallel()
	x := authz.NewIndex()
	changes := []func(){
		x.CaughtUp,
		func() { x.Set("profile.a", authz.Record{Profile: &sluice.Profile{Principal: ann}}, 7) },
		func() { x.Remove("profile.a", 9) },
		func() { x.Until(time.Now()) },
		func() { x.Set("profile.b", authz.Record{Profile: &sluice.Profile{Principal: bot}}, 4) },
	}
	for i, want := range []uint64{0, 7, 9, 9, 9} {
		_, changed := x.Applied()
		changes[i]()
		select {
		case <-changed:
		default:
			require.Fail(t, "no one is told", "change %d", i)
		}
		revision, _ := x.Applied()
		require.Equal(t, want, revision, "change %d", i)
	}
}

// A grant shows the revision at which it is stored, which its next change has to name.
func TestGrant_HasTheRevisionOfItsRecord(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.grant("g", ann, "scope:acme", "read")
	g, ok := w.Grant("g")
	require.True(t, ok)
	require.Equal(t, w.revision, g.Revision)
}

// Both clocks bound what the index may decide: the one that jumps may have jumped back.
func TestReady_WallClockThatJumpedBack(t *testing.T) {
	t.Parallel()
	x := authz.NewIndex()
	x.CaughtUp()
	began := time.Now()
	until := began.Add(10 * time.Second)
	x.Until(until)
	require.NoError(t, x.Ready(began.Add(9*time.Second)))
	require.Error(t, x.Ready(began.Add(11*time.Second)))
	// A time whose wall clock and steady clock disagree comes of arithmetic on Round(0) only.
	require.Error(t, x.Ready(began.Round(0).Add(10*time.Second)), "at the end itself")
}

// Messages name what was wanted as an object is written.
func TestTarget_IsWrittenAsAnObject(t *testing.T) {
	t.Parallel()
	for want, target := range map[string]authz.Target{
		"path:acme/a":    {Namespace: "acme", Path: "/a"},
		"path:acme/a/**": {Namespace: "acme", Pattern: "/a/**"},
		"scope:acme":     {Namespace: "acme"},
		"*":              {},
	} {
		require.Equal(t, want, target.String())
	}
}

// Only the records that bound a namespace make it undecided while they cannot be read.
func TestSet_UnreadableRecordThatBoundsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.grant("g", ann, "scope:acme", "read")
	for _, key := range []string{"grant.acme", "profile.acme", "acl.acme.user", "tombstone.acme", "label.acme.x"} {
		w.put(key, authz.Record{Unreadable: true})
		require.Equal(t, yes, w.may(caller(g), "read", "/a"), key)
		require.Equal(t, sluice.Unauthenticated, sluice.CodeOf(w.Require(anonymous(), "read", authz.Target{}, w.now)), key)
	}
	for _, key := range []string{"acl.acme", "label.acme", "tombstone.acme.x"} {
		w.put(key, authz.Record{Unreadable: true})
		require.Equal(t, unsure, w.may(caller(g), "read", "/a"), key)
		w.Remove(key, w.revision+1)
		require.Equal(t, yes, w.may(caller(g), "read", "/a"), key)
	}
	var r authz.Record
	require.NoError(t, r.UnmarshalJSON([]byte(`{"label":{"namespace":"acme","label":{"level":"SECRET"}}}`)))
	require.Equal(t, "acme", r.Label.Namespace)
	require.NoError(t, r.UnmarshalJSON([]byte(`{"label":7}`)))
	require.Equal(t, authz.Record{Unreadable: true}, r)
}

// What is not known is no one's, and does not hold anything up.
func TestSame_UnknownGrant(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	about := sluice.Object{Namespace: "acme"}
	mine := w.grant("mine", ann, "scope:acme", "read")
	lost := sluice.Caller{Principal: ann, Grant: "not known"}
	require.False(t, w.Same(lost, "mine", about, w.now))
	require.Equal(t, ann, w.Answers(lost, "acme", w.now))
	require.Equal(t, ann, w.Answers(caller(mine), "acme", w.now), "of root")
	require.True(t, w.Same(caller(mine), "mine", about, w.now))

	w.grant("of", "user:of", "scope:acme", "read")
	part := w.part("part", "of", ann, "scope:acme", "read")
	require.True(t, w.Same(caller(part), "part", about, w.now), "itself, though another gave it its name")
	require.False(t, w.Same(caller(part), "mine", about, w.now))
	require.False(t, w.Same(caller(part), "not known", about, w.now))
}

// A list that has a line of another principal, and an empty one of the caller's, does not name the caller.
func TestRequire_LineForOnePathIsNoneForTheNamespace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	server := w.grant("server", ann, "*", "admin")
	require.Equal(t, sluice.Code(""), sluice.CodeOf(w.Require(caller(server), "admin", authz.Target{}, w.now)), "no namespace, no list")
	g := w.grant("g", ann, "scope:acme", "read")
	w.acl(ann, line(sluice.TierRead, "/a/**"))
	require.Equal(t, refused, w.may(caller(g), "read", ""), "the namespace as a whole")
	w.acl(ann)
	require.Equal(t, hidden, sluice.CodeOf(w.Sees(caller(g), "acme", w.now)))
}

// A chain that is deeper than there can be is followed no further, and gives nothing.
func TestIndex_DoesNotFollowAnEndlessChain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	about := sluice.Object{Namespace: "acme"}
	first := w.grant("0", "user:of", "scope:acme", "read")
	for i := range 2 * sluice.MaxGrantDepth {
		w.part(strconv.Itoa(i+1), strconv.Itoa(i), ann, "scope:acme", "read")
	}
	child, most := sluice.Caller{Principal: ann, Grant: "1"}, strconv.Itoa(sluice.MaxGrantDepth)
	require.True(t, w.Same(child, most, about, w.now), "as deep as there can be")
	require.False(t, w.Same(child, strconv.Itoa(sluice.MaxGrantDepth+1), about, w.now), "one deeper")

	deep := sluice.Caller{Principal: ann, Grant: strconv.Itoa(2 * sluice.MaxGrantDepth)}
	w.grant("other", ann, "scope:acme", "read")
	require.False(t, w.Same(deep, "other", about, w.now))
	require.Equal(t, incapable, sluice.CodeOf(w.Some(deep, "read", "acme", w.now)), "concealed or incapable, never yes")
	ended := *first
	ended.RevokedAt = &w.now
	touched := w.Takes(authz.Record{Grant: first}, authz.Record{Grant: &ended})
	require.False(t, touched(&sluice.Subscription{Namespace: "acme", Lifecycle: sluice.Lifecycle{Grant: deep.Grant}}), "it holds nothing anyway")
}
