package authz

import (
	"slices"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Touched reports whether a subscription is affected by a revocation.
type Touched func(sub *sluice.Subscription) bool

// Takes selects the subscriptions affected by a change that removes permissions; nil if it removes
// none. The index must already have the change.
func (x *Index) Takes(before, after Record) Touched {
	if after.Unreadable {
		return func(*sluice.Subscription) bool { return true }
	}
	return x.takes(before, after)
}

// takes is Takes for a readable record.
func (x *Index) takes(before, after Record) Touched {
	switch {
	case after.Grant != nil && ends(before.Grant, after.Grant):
		return x.under(func(g *granted) bool { return g.ID == after.Grant.ID })
	case after.ACL != nil && shrinks(before.ACL, after.ACL):
		return both(in(after.ACL.Namespace), x.speaking(after.ACL.Principal))
	case after.Admins != nil && after.Admins.Closed && (before.Admins == nil || !before.Admins.Closed):
		return in(after.Admins.Namespace)
	case after.Profile != nil && before.Profile != nil && !after.Profile.Clearance.Dominates(before.Profile.Clearance):
		return x.speaking(after.Profile.Principal)
	case after.Label != nil && !labelOf(before).Dominates(after.Label.Label):
		return in(after.Label.Namespace)
	case after.Tombstone != nil:
		return in(after.Tombstone.Namespace)
	}
	return nil
}

// labelOf returns the label of a record; PUBLIC if it has none.
func labelOf(r Record) sluice.Label {
	if r.Label == nil {
		return sluice.Label{}
	}
	return r.Label.Label
}

// ends reports whether a grant ends, or ends earlier than before.
func ends(before, after *Granted) bool {
	return before != nil && (after.RevokedAt != nil && before.RevokedAt == nil || after.ExpiresAt.Before(before.ExpiresAt))
}

// shrinks reports whether an entry of an access list was removed or changed.
func shrinks(before, after *sluice.ACL) bool {
	return before != nil && slices.ContainsFunc(before.Entries, func(e sluice.Access) bool { return !slices.Contains(after.Entries, e) })
}

func in(namespace string) Touched {
	return func(sub *sluice.Subscription) bool { return sub.Namespace == namespace }
}

func both(a, b Touched) Touched {
	return func(sub *sluice.Subscription) bool { return a(sub) && b(sub) }
}

// under selects the subscriptions with a matching grant in their chain.
func (x *Index) under(link func(*granted) bool) Touched {
	return func(sub *sluice.Subscription) bool {
		x.mu.RLock()
		defer x.mu.RUnlock()
		id := sub.Grant
		for range sluice.MaxGrantDepth + 1 {
			g := x.grants[id]
			if g == nil {
				return false
			}
			if link(g) {
				return true
			}
			id = g.Parent
		}
		return false
	}
}

// speaking selects the subscriptions with a grant of a principal, or on its behalf, in their chain.
func (x *Index) speaking(p sluice.Principal) Touched {
	return x.under(func(g *granted) bool { return g.Principal == p || g.OnBehalfOf == p })
}

// Record returns a record of the index; the zero Record if it has none.
func (x *Index) Record(key string) Record {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.records[key]
}
