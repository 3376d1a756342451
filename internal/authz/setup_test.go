package authz_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/authz"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// world is an index that a test fills.
type world struct {
	*authz.Index

	t        testing.TB
	now      time.Time
	revision uint64
}

func newWorld(tb testing.TB) *world {
	tb.Helper()
	w := &world{Index: authz.NewIndex(), t: tb, now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	w.CaughtUp()
	return w
}

func (w *world) put(key string, r authz.Record) {
	w.revision++
	w.Set(key, r, w.revision)
}

// grant gives a principal verbs for an object until a day later.
func (w *world) grant(id string, p sluice.Principal, object string, verbs ...sluice.Verb) *authz.Granted {
	w.t.Helper()
	o, err := sluice.ParseObject(object)
	require.NoError(w.t, err)
	g := &authz.Granted{Grant: sluice.Grant{ID: id, Principal: p, Verbs: verbs, Object: o, IssuedBy: sluice.Root, IssuedAt: w.now, ExpiresAt: w.now.Add(24 * time.Hour)}}
	w.save(g)
	return g
}

func (w *world) save(g *authz.Granted) {
	kept := *g
	w.put(streams.GrantKey(g.ID), authz.Record{Grant: &kept})
}

// part gives a principal a part of a grant.
func (w *world) part(id, parent string, p sluice.Principal, object string, verbs ...sluice.Verb) *authz.Granted {
	w.t.Helper()
	g := w.grant(id, p, object, verbs...)
	g.Parent = parent
	w.save(g)
	return g
}

func (w *world) revoke(g *authz.Granted) {
	at := w.now
	g.RevokedAt = &at
	w.save(g)
}

// acl says what a principal may do in the namespace acme, whose list is in force then.
func (w *world) acl(p sluice.Principal, entries ...sluice.Access) {
	w.put(streams.ACLKey("acme", ""), authz.Record{Admins: &authz.Admins{Namespace: "acme", Closed: true}})
	w.put(streams.ACLKey("acme", p), authz.Record{ACL: &sluice.ACL{Namespace: "acme", Principal: p, Entries: entries}})
}

func (w *world) clear(p sluice.Principal, l sluice.Label) {
	w.put(streams.ProfileKey(p), authz.Record{Profile: &sluice.Profile{Principal: p, Clearance: l}})
}

// label labels the namespace acme.
func (w *world) label(l sluice.Label) {
	w.put(streams.LabelKey("acme"), authz.Record{Label: &authz.Label{Namespace: "acme", Label: l}})
}

// may returns the code that a caller gets who asks for a verb on a path or a pattern of the
// namespace acme.
func (w *world) may(c sluice.Caller, v sluice.Verb, where string) sluice.Code {
	w.t.Helper()
	t := authz.Target{Namespace: "acme"}
	if p, err := sluice.ParsePath(where); err == nil {
		t.Path = p
	} else if where != "" {
		t.Pattern, err = sluice.ParsePattern(where)
		require.NoError(w.t, err)
	}
	return sluice.CodeOf(w.Require(c, v, t, w.now))
}

func caller(g *authz.Granted) sluice.Caller {
	return sluice.Caller{Principal: g.Principal, Grant: g.ID}
}

func event(path sluice.Path, seq uint64) *sluice.Event {
	return &sluice.Event{Namespace: "acme", Path: path, Seq: seq, ID: "e", Type: "t"}
}

func subscriptionOf(g *authz.Granted, pattern sluice.Pattern) *sluice.Subscription {
	return &sluice.Subscription{ID: "s", Namespace: "acme", Pattern: pattern, Lifecycle: sluice.Lifecycle{CreatedBy: string(g.Principal), Grant: g.ID}}
}

const (
	ann sluice.Principal = "user:ann"
	bot sluice.Principal = "ai_agent:bot"
)

func line(t sluice.Tier, p sluice.Pattern) sluice.Access { return sluice.Access{Tier: t, Pattern: p} }
