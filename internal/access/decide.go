package access

import (
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Target is what somebody wants to do something with: one path of a namespace, all paths that
// a pattern matches, or, without either, the namespace as a whole. The zero Target is the server.
type Target struct {
	Namespace string
	Path      sluice.Path
	Pattern   sluice.Pattern
	Entity    string // not "": of what lies there, the events about one entity alone

	event bool // one event on Path: what it is about is asked separately (concerns)
}

// TargetOf returns what an object is about.
func TargetOf(o sluice.Object) Target {
	return Target{Namespace: o.Namespace, Pattern: o.Pattern, Entity: o.Entity}
}

// answer is how far somebody comes with a wish.
type answer uint8

const (
	unknown   answer = iota // it cannot be said at the moment
	concealed               // they may not know that the namespace exists
	incapable               // their grant does not have it
	refused                 // the access list or the label says no
	granting                // they may
)

// Require returns an error unless the caller may do something with a target: NotFound if it may
// not even know of the namespace (C14), CapabilityRequired if its grant is for something
// else (S0-54), Forbidden if the access list or a label is against it, Unavailable if it is not known. Somebody of
// whom nothing is known gets Unauthenticated for all that is not everybody's.
func (x *Index) Require(c sluice.Caller, v sluice.Verb, t Target, now time.Time) error {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if c.Unknown() {
		return x.anybody(v, t, now)
	}
	return x.ask(c, v, t, now).err(v, t)
}

// err returns what an answer means for a caller.
func (a answer) err(v sluice.Verb, t Target) error {
	if t.reserved() {
		v = sluice.VerbAdmin // as ask demands
	}
	switch a {
	case granting:
		return nil
	case concealed:
		return Concealed()
	case incapable:
		return sluice.Errorf(sluice.CapabilityRequired, "this needs a grant with the verb %s for %s", v, t).With("verb", string(v)).With("object", t.String())
	case refused:
		return sluice.Errorf(sluice.Forbidden, "your grant has the verb %s, but the access list or the label of %s does not let you use it there", v, t.Namespace)
	case unknown:
	}
	return sluice.Errorf(sluice.Unavailable, "who may do what is not known at the moment; try again")
}

// Concealed returns the error of what a caller may not know of: the same whether there is such a thing or not.
func Concealed() error {
	return sluice.Errorf(sluice.NotFound, "there is no such thing, or you may not know of it")
}

// String returns the target as an object is written.
func (t Target) String() string {
	if t.Path != "" {
		return "path:" + t.Namespace + string(t.Path)
	}
	return t.object().String()
}

func (t Target) object() sluice.Object {
	return sluice.Object{Namespace: t.Namespace, Pattern: t.Pattern, Entity: t.Entity}
}

// ask answers under the read lock.
func (x *Index) ask(c sluice.Caller, v sluice.Verb, t Target, now time.Time) answer {
	switch {
	case c.Unbounded():
		return granting
	case !x.knows(now):
		return unknown
	}
	if t.Namespace != "" {
		if a := x.sees(c.Grant, t.Namespace, now); a != granting {
			return a
		}
	}
	if t.reserved() { // what the server itself writes is for admins (S4-33)
		v = sluice.VerbAdmin
	}
	if a := x.capable(c.Grant, v, t, now); a != granting || t.Namespace == "" {
		return a
	}
	return x.listed(c.Grant, v.Tier(), t, now)
}

// each asks a grant and all that it is a part of, as long as the answer is yes.
func (x *Index) each(grant string, now time.Time, f func(*granted) answer) answer {
	for range sluice.MaxGrantDepth + 1 {
		g := x.grants[grant]
		switch {
		case g == nil:
			return unknown // it was made a moment ago
		case g.RevokedAt != nil || !now.Before(g.ExpiresAt):
			return incapable
		}
		if a := f(g); a != granting || g.Parent == "" {
			return a
		}
		grant = g.Parent
	}
	return incapable
}

// capable says whether every grant of the chain has the verb for the target.
func (x *Index) capable(grant string, v sluice.Verb, t Target, now time.Time) answer {
	return x.each(grant, now, func(g *granted) answer {
		if !g.verbs.has(v) || !t.within(g.Object) {
			return incapable
		}
		return granting
	})
}

// sees says whether the namespace is one that everybody in the chain may know of.
func (x *Index) sees(grant, namespace string, now time.Time) answer {
	if !x.knowsOf(namespace) {
		return unknown
	}
	l, label := x.lists[namespace], x.labels[namespace]
	return x.each(grant, now, func(g *granted) answer {
		if g.Object.Namespace != "" && g.Object.Namespace != namespace ||
			!x.clears(g, label) || !l.knows(g.Principal) || g.OnBehalfOf != "" && !l.knows(g.OnBehalfOf) {
			return concealed
		}
		return granting
	})
}

// listed says whether the access list gives everybody in the chain the tier.
func (x *Index) listed(grant string, need sluice.Tier, t Target, now time.Time) answer {
	l := x.lists[t.Namespace]
	return x.each(grant, now, func(g *granted) answer {
		if l.gives(g.Principal, need, t) && (g.OnBehalfOf == "" || l.gives(g.OnBehalfOf, need, t)) {
			return granting
		}
		return refused
	})
}

// clears reports whether everybody for whom a grant speaks is cleared for a label.
func (x *Index) clears(g *granted, label sluice.Label) bool {
	return label.Public() || x.clearances[g.Principal].Dominates(label) &&
		(g.OnBehalfOf == "" || x.clearances[g.OnBehalfOf].Dominates(label))
}

// open reports whether grants alone decide.
func (l *list) open() bool { return l == nil || !l.closed }

// knows reports whether a principal may know of the namespace.
func (l *list) knows(p sluice.Principal) bool { return l.open() || len(l.of[p]) > 0 }

// gives reports whether the list gives a principal at least the tier for the whole target.
func (l *list) gives(p sluice.Principal, need sluice.Tier, t Target) bool {
	if l.open() {
		return true
	}
	for i := range l.of[p] {
		if e := &l.of[p][i]; e.Tier >= need && t.under(e) {
			return true
		}
	}
	return false
}

// reserved reports whether the target is of the server's own paths.
func (t Target) reserved() bool { return t.Path.Reserved() || sluice.Path(t.Pattern).Reserved() }

// within reports whether the target is part of an object.
func (t Target) within(o sluice.Object) bool {
	switch {
	case t.event && o.Entity != "":
		return o.Namespace == t.Namespace
	case t.Path != "":
		return o.Has(t.Namespace, t.Path)
	}
	return o.Covers(t.object())
}

// under reports whether a line of an access list is about all of the target.
func (t Target) under(e *sluice.Access) bool {
	switch {
	case e.Everything():
		return !t.reserved() || e.Tier == sluice.TierAdmin
	case t.Path != "":
		return e.Pattern.Match(t.Path)
	}
	return t.Pattern != "" && e.Pattern.Covers(t.Pattern)
}

// Same reports whether a caller is the holder of another grant, and does not only have its name, which whoever
// holds a grant can give to anybody: its own was issued by root, by somebody in whose grant the other one is
// a part, by an admin of what it is about, or by the holder itself, of whom the same is asked. Those of whom nothing
// is known cannot be told apart.
func (x *Index) Same(c sluice.Caller, grant string, about sluice.Object, now time.Time) bool {
	if c.Unknown() {
		return grant == ""
	}
	x.mu.RLock()
	defer x.mu.RUnlock()
	id := c.Grant
	for range sluice.MaxGrantDepth + 1 {
		g := x.grants[id]
		switch {
		case g == nil || g.Principal != c.Principal:
			return false
		case g.ID == grant || g.Parent == "" || x.isPart(grant, g.Parent) || x.administers(g.Parent, about, now):
			return true
		}
		id = g.Parent
	}
	return false
}

// Answers returns who answers for what a caller publishes in a namespace: the caller, or, if somebody who is no admin
// there gave it its name, that one. Nobody gets somebody else into trouble by giving them a part of a grant.
func (x *Index) Answers(c sluice.Caller, namespace string, now time.Time) sluice.Principal {
	x.mu.RLock()
	defer x.mu.RUnlock()
	who, id := c.Principal, c.Grant
	for range sluice.MaxGrantDepth + 1 {
		g := x.grants[id]
		if g == nil || g.Parent == "" || x.administers(g.Parent, sluice.Object{Namespace: namespace}, now) {
			break
		}
		if parent := x.grants[g.Parent]; parent != nil {
			who = parent.Principal
		}
		id = g.Parent
	}
	return who
}

// AuthType returns what kind of principal a caller is, for authtype (S4-13). A name says what its giver wrote, so the
// whole chain of grants is looked at: with an agent anywhere in it the caller is an agent, and only root makes a
// system. A grant of a chain that is not known makes it unknown.
func (x *Index) AuthType(c sluice.Caller) string {
	if c.Grant == "" {
		return sluice.AuthTypeOf(c.Principal)
	}
	x.mu.RLock()
	defer x.mu.RUnlock()
	is, id := "", c.Grant
	for range sluice.MaxGrantDepth + 1 {
		g := x.grants[id]
		if g == nil {
			break
		}
		if g.Principal.Kind() == sluice.AgentPrincipal || g.OnBehalfOf.Kind() == sluice.AgentPrincipal {
			return sluice.AuthAgent
		}
		if is == "" && (g.Parent == "" || g.Principal.Kind() != sluice.SystemPrincipal) {
			is = sluice.AuthTypeOf(g.Principal)
		}
		if g.Parent == "" {
			return is
		}
		id = g.Parent
	}
	return sluice.AuthUnknown
}

// isPart reports whether a grant is another one or a part of it.
func (x *Index) isPart(grant, whole string) bool {
	for range sluice.MaxGrantDepth + 1 {
		g := x.grants[grant]
		if g == nil || grant == whole {
			return g != nil
		}
		grant = g.Parent
	}
	return false
}

// administers reports whether a grant makes its holder an admin of an object.
func (x *Index) administers(grant string, o sluice.Object, now time.Time) bool {
	return x.ask(sluice.Caller{Grant: grant}, sluice.VerbAdmin, TargetOf(o), now) == granting
}

// Sees returns an error unless the caller may know of a namespace: NotFound, or Unavailable.
func (x *Index) Sees(c sluice.Caller, namespace string, now time.Time) error {
	return x.Some(c, "", namespace, now)
}

// Some returns an error unless the caller has a verb somewhere in a namespace; "" asks whether it may know
// of it. Codes as Require.
func (x *Index) Some(c sluice.Caller, v sluice.Verb, namespace string, now time.Time) error {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if c.Unknown() {
		return x.anybody(v, Target{Namespace: namespace, Pattern: "/**"}, now)
	}
	return x.some(c, v, namespace, now).err(v, Target{Namespace: namespace})
}

func (x *Index) some(c sluice.Caller, v sluice.Verb, namespace string, now time.Time) answer {
	switch {
	case c.Unbounded():
		return granting
	case !x.knows(now):
		return unknown
	}
	if a := x.sees(c.Grant, namespace, now); a != granting || v == "" {
		return a
	}
	return x.each(c.Grant, now, func(g *granted) answer {
		if !g.verbs.has(v) {
			return incapable
		}
		return granting
	})
}
