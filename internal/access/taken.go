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
	case after.Grant != nil:
		if ends(before.Grant, after.Grant) {
			return x.under(func(g *granted) bool { return g.ID == after.Grant.ID })
		}
	case after.ACL != nil:
		if before.ACL != nil && shrinks(before.ACL.Entries, after.ACL.Entries) {
			return both(in(after.ACL.Namespace), x.speaking(after.ACL.Principal))
		}
	case after.Admins != nil:
		if after.Admins.Closed && (before.Admins == nil || !before.Admins.Closed) {
			return in(after.Admins.Namespace)
		}
	case after.Profile != nil:
		if before.Profile != nil && !after.Profile.Clearance.Dominates(before.Profile.Clearance) {
			return x.speaking(after.Profile.Principal)
		}
	case after.Label != nil:
		if before.Label == nil && !after.Label.Label.Public() || before.Label != nil && !before.Label.Label.Dominates(after.Label.Label) {
			return in(after.Label.Namespace)
		}
	case after.Tombstone != nil:
		return in(after.Tombstone.Namespace)
	}
	return nil
}

// ends reports whether a grant ends, or ends earlier than it did.
func ends(before, after *Granted) bool {
	return before != nil && (after.RevokedAt != nil && before.RevokedAt == nil || after.ExpiresAt.Before(before.ExpiresAt))
}

// shrinks reports whether one of the lines before is not among the lines after.
func shrinks(before, after []sluice.Access) bool {
	return slices.ContainsFunc(before, func(e sluice.Access) bool { return !slices.Contains(after, e) })
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
