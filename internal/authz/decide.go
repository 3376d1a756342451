package authz

import (
	"time"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Target is the target of an operation: one path of a namespace, all paths that match a pattern,
// or, without either, the whole namespace. The zero Target is the server.
type Target struct {
	Namespace string
	Path      sluice.Path
	Pattern   sluice.Pattern
	Entity    string // if set: only the events about this entity on the paths

	event bool // the target is one event on Path, whose entity concerns checks
}

// TargetOf returns the target of an object.
func TargetOf(o sluice.Object) Target {
	return Target{Namespace: o.Namespace, Pattern: o.Pattern, Entity: o.Entity}
}

// answer is the result of a permission check.
type answer uint8

const (
	unknown   answer = iota // cannot be decided yet
	concealed               // the namespace is hidden from the caller
	incapable               // the grant does not permit it
	refused                 // the access list or the label denies it
	granting                // permitted
)

// Require returns an error unless the caller may perform an operation on a target: NotFound if the
// namespace is hidden from it (C14), CapabilityRequired if its grant does not permit it (S0-54),
// Forbidden if the access list or a label denies it, Unavailable if it cannot be decided yet. An
// anonymous caller gets Unauthenticated for everything that is not public.
func (x *Index) Require(c sluice.Caller, v sluice.Verb, t Target, now time.Time) error {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if c.Unknown() {
		return x.anybody(v, t, now)
	}
	return x.ask(c, v, t, now).err(v, t)
}

// Denial returns what denies a caller with a grant a verb for a target; empty: nothing does. Code
// Unavailable if permissions are unknown.
func (x *Index) Denial(c sluice.Caller, v sluice.Verb, t Target, now time.Time) (sluice.Denial, error) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	switch x.ask(c, v, t, now) {
	case granting:
		return "", nil
	case refused:
		return sluice.DeniedByList, nil
	case incapable:
		return sluice.DeniedByGrant, nil
	case concealed:
		return x.conceals(c.Grant, t.Namespace, now), nil
	case unknown:
	}
	return "", model.PermissionsUnknown()
}

// conceals returns what hides a namespace from a principal in the chain of a grant.
func (x *Index) conceals(grant, namespace string, now time.Time) sluice.Denial {
	by := sluice.DeniedByList
	x.each(grant, now, func(g *granted) answer {
		switch {
		case g.Object.Namespace != "" && g.Object.Namespace != namespace:
			by = sluice.DeniedByGrant
			return concealed
		case !x.clears(g, x.labels[namespace]):
			by = sluice.DeniedByLabel
			return concealed
		}
		return granting
	})
	return by
}

// err returns the error for an answer.
func (a answer) err(v sluice.Verb, t Target) error {
	if t.reserved() {
		v = sluice.VerbAdmin // as ask requires
	}
	switch a {
	case granting:
		return nil
	case concealed:
		return Concealed()
	case incapable:
		return sluice.Errorf(sluice.CapabilityRequired, "this requires a grant with the verb %s for %s", v, t).With("verb", string(v)).With("object", t.String())
	case refused:
		return sluice.Errorf(sluice.Forbidden, "your grant has the verb %s, but the access list or the label of %s denies it", v, t.Namespace)
	case unknown:
	}
	return model.PermissionsUnknown()
}

// Concealed returns the error for a hidden resource, identical to that for a missing one.
func Concealed() error {
	return sluice.Errorf(sluice.NotFound, "not found, or not visible to you")
}

// String returns the target in the form of an object.
func (t Target) String() string {
	if t.Path != "" {
		return "path:" + t.Namespace + string(t.Path)
	}
	return t.object().String()
}

func (t Target) object() sluice.Object {
	return sluice.Object{Namespace: t.Namespace, Pattern: t.Pattern, Entity: t.Entity}
}

// ask decides under the read lock.
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
	if t.reserved() { // system paths are for admins (S4-33)
		v = sluice.VerbAdmin
	}
	if a := x.capable(c.Grant, v, t, now); a != granting || t.Namespace == "" {
		return a
	}
	return x.listed(c.Grant, v.Tier(), t, now)
}

// each calls f for a grant and all grants that it derives from, and returns the first answer other
// than granting. It is unknown if one of them is unknown.
func (x *Index) each(grant string, now time.Time, f func(*granted) answer) answer {
	for range sluice.MaxGrantDepth + 1 {
		g := x.grants[grant]
		switch {
		case g == nil:
			return unknown // it was just created
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

// capable decides whether every grant of the chain has the verb for the target.
func (x *Index) capable(grant string, v sluice.Verb, t Target, now time.Time) answer {
	return x.each(grant, now, func(g *granted) answer {
		if !g.verbs.has(v) || !t.within(g.Object) {
			return incapable
		}
		return granting
	})
}

// sees decides whether the namespace is visible to every principal in the chain.
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

// listed decides whether the access list gives every principal in the chain the tier.
func (x *Index) listed(grant string, need sluice.Tier, t Target, now time.Time) answer {
	l := x.lists[t.Namespace]
	return x.each(grant, now, func(g *granted) answer {
		if l.gives(g.Principal, need, t) && (g.OnBehalfOf == "" || l.gives(g.OnBehalfOf, need, t)) {
			return granting
		}
		return refused
	})
}

// clears reports whether every principal of a grant is cleared for a label.
func (x *Index) clears(g *granted, label sluice.Label) bool {
	return label.Public() || x.clearances[g.Principal].Dominates(label) &&
		(g.OnBehalfOf == "" || x.clearances[g.OnBehalfOf].Dominates(label))
}

// open reports whether the namespace has no list in force, so that grants alone decide.
func (l *list) open() bool { return l == nil || !l.closed }

// knows reports whether the namespace is visible to a principal.
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

// reserved reports whether the target is a system path.
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

// under reports whether an entry of an access list covers the whole target.
func (t Target) under(e *sluice.Access) bool {
	switch {
	case e.Everything():
		return !t.reserved() || e.Tier == sluice.TierAdmin
	case t.Path != "":
		return e.Pattern.Match(t.Path)
	}
	return t.Pattern != "" && e.Pattern.Covers(t.Pattern)
}

// Same reports whether a caller is the holder of another grant, rather than merely having the same
// principal, which any issuer can choose: its own grant was issued by root, by the holder of a
// grant that the other one derives from, by an admin of the object, or by the holder itself,
// recursively. All anonymous callers are the same.
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

// Answers returns the principal that is accountable for a caller's publishes in a namespace: the
// nearest principal in its chain of grants whose grant was issued by root or by an admin of the
// namespace. So an issuer cannot shift the consequences to another principal by delegating to it.
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

// AuthType returns the kind of a caller's principal, for authtype (S4-13). The issuer of a grant
// chooses its principal, so the whole chain of grants counts: an agent anywhere in it makes the
// caller an agent, and only root creates a system. An unknown grant in the chain makes the kind
// unknown.
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

// isPart reports whether a grant is whole or derives from it.
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

// Sees returns an error unless a namespace is visible to the caller: NotFound, or Unavailable.
func (x *Index) Sees(c sluice.Caller, namespace string, now time.Time) error {
	return x.Some(c, "", namespace, now)
}

// Some returns an error unless the caller has a verb somewhere in a namespace; with "", unless the
// namespace is visible to it. Codes as for Require.
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
