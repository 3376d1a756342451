package access

import (
	"slices"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Touched reports whether a subscription is concerned by what a change took away.
type Touched func(sub *sluice.Subscription) bool

// Takes returns whom a change concerns that takes something away; nil if it takes nothing.
// The index has the change already.
func (x *Index) Takes(before, after Record) Touched {
	if after.Unreadable {
		return func(*sluice.Subscription) bool { return true }
	}
	return x.takes(before, after)
}

// takes is Takes for a record that can be read.
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

// labelOf returns the label that a record says; PUBLIC if it says none.
func labelOf(r Record) sluice.Label {
	if r.Label == nil {
		return sluice.Label{}
	}
	return r.Label.Label
}

// ends reports whether a grant ends, or ends earlier than it did.
func ends(before, after *Granted) bool {
	return before != nil && (after.RevokedAt != nil && before.RevokedAt == nil || after.ExpiresAt.Before(before.ExpiresAt))
}

// shrinks reports whether one of the lines before is not among the lines after.
func shrinks(before, after *sluice.ACL) bool {
	return before != nil && slices.ContainsFunc(before.Entries, func(e sluice.Access) bool { return !slices.Contains(after.Entries, e) })
}

func in(namespace string) Touched {
	return func(sub *sluice.Subscription) bool { return sub.Namespace == namespace }
}

func both(a, b Touched) Touched {
	return func(sub *sluice.Subscription) bool { return a(sub) && b(sub) }
}

// under returns the subscriptions of whose grant's chain some link is as said.
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

// speaking returns the subscriptions of whose grant's chain some link speaks for a principal.
func (x *Index) speaking(p sluice.Principal) Touched {
	return x.under(func(g *granted) bool { return g.Principal == p || g.OnBehalfOf == p })
}

// Record returns a record as the index has it; the zero one if it has none.
func (x *Index) Record(key string) Record {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.records[key]
}
