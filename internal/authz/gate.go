package authz

import (
	"slices"
	"strings"
	"time"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Decide is the gate: it decides whether an event may be sent for a subscription now (S0-57…64). It
// checks in this order: the grant of the subscription is neither revoked nor expired; the access
// list and the label of the namespace permit the event's path to its principal; the label of the
// event does, too; the event is not erased. For subscriptions of root, only the last check applies.
func (x *Index) Decide(sub *sluice.Subscription, ev *sluice.Event, now time.Time) model.Decision {
	return x.Shows(OwnerOf(sub), sluice.VerbSubscribe, ev, now)
}

// OwnerOf returns the owner of a subscription as a caller.
func OwnerOf(sub *sluice.Subscription) sluice.Caller {
	return sluice.Caller{Principal: sluice.Principal(sub.CreatedBy), Grant: sub.Grant}
}

// Shows decides whether a caller may see an event.
func (x *Index) Shows(c sluice.Caller, v sluice.Verb, ev *sluice.Event, now time.Time) model.Decision {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if !x.knows(now) {
		return model.Undecided
	}
	switch {
	case c.Unbounded():
	case c.Unknown():
		if d := x.showsAnybody(ev); d != model.Pass {
			return d
		}
	default:
		if a := x.ask(c, v, Target{Namespace: ev.Namespace, Path: ev.Path, event: true}, now); a != granting {
			return decision(a)
		}
		if !x.concerns(c.Grant, ev, now) {
			return model.Withhold
		}
		if raised := ev.Extensions[sluice.AttributeClassification]; raised != "" && !x.cleared(c.Grant, raised, now) {
			return model.Withhold
		}
	}
	if x.erased(ev) {
		return model.Withhold
	}
	return model.Pass
}

// Erased reports whether an event was erased. An event without a sequence was not.
func (x *Index) Erased(ev *sluice.Event) bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.erased(ev)
}

func (x *Index) erased(ev *sluice.Event) bool {
	return x.tombstones[ev.Namespace][ev.Path] >= ev.Seq && ev.Seq > 0
}

// Holds decides whether a subscription's owner still has access to any of its events.
func (x *Index) Holds(sub *sluice.Subscription, now time.Time) model.Decision {
	return x.May(OwnerOf(sub), sluice.VerbSubscribe, sub.Object(), now)
}

// May decides whether a caller has access to any part of an object.
func (x *Index) May(c sluice.Caller, v sluice.Verb, wants sluice.Object, now time.Time) model.Decision {
	x.mu.RLock()
	defer x.mu.RUnlock()
	switch {
	case !x.knows(now):
		return model.Undecided
	case c.Unbounded():
		return model.Pass
	case c.Unknown():
		return x.holdsAnybody(wants.Namespace)
	}
	if a := x.sees(c.Grant, wants.Namespace, now); a != granting {
		return decision(a)
	}
	l := x.lists[wants.Namespace]
	return decision(x.each(c.Grant, now, func(g *granted) answer {
		if !g.verbs.has(v) || !g.Object.Touches(wants) {
			return incapable
		}
		if l.someOf(g.Principal, wants.Pattern) && (g.OnBehalfOf == "" || l.someOf(g.OnBehalfOf, wants.Pattern)) {
			return granting
		}
		return refused
	}))
}

// someOf reports whether the list permits a principal to read some path of the pattern.
func (l *list) someOf(p sluice.Principal, pattern sluice.Pattern) bool {
	return l.open() || slices.ContainsFunc(l.of[p], func(e sluice.Access) bool {
		return e.Tier >= sluice.TierRead && (e.Everything() || e.Pattern.Overlaps(pattern))
	})
}

// concerns reports whether an event is about every entity in the grants of the chain. An event
// without an ID, of which only the position is known, matches no entity: it may stand for a stream,
// or have left the log.
func (x *Index) concerns(grant string, ev *sluice.Event, now time.Time) bool {
	return x.each(grant, now, func(g *granted) answer {
		if of := g.Object.Entity; of == "" || ev.ID != "" && of == ev.Entity() {
			return granting
		}
		return refused
	}) == granting
}

// decision converts an answer to the decision for a subscription that was once allowed.
func decision(a answer) model.Decision {
	switch a {
	case granting:
		return model.Pass
	case unknown:
		return model.Undecided
	case concealed, incapable, refused:
	}
	return model.Lost
}

// cleared reports whether every principal in the chain is cleared for the label of an event. No
// principal is cleared for an unreadable label.
func (x *Index) cleared(grant, label string, now time.Time) bool {
	return x.each(grant, now, func(g *granted) answer {
		if dominates(x.clearances[g.Principal], label) && (g.OnBehalfOf == "" || dominates(x.clearances[g.OnBehalfOf], label)) {
			return granting
		}
		return refused
	}) == granting
}

// dominates is Label.Dominates for a label in the form of ParseClassification.
func dominates(clearance sluice.Label, label string) bool {
	name, compartments, more := strings.Cut(label, "/")
	level, err := sluice.ParseLevel(name)
	if err != nil || clearance.Level < level {
		return false
	}
	for c := range strings.SplitSeq(compartments, ",") {
		if more && !slices.Contains(clearance.Compartments, c) {
			return false
		}
	}
	return true
}
