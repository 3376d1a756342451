package authz

import (
	"time"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Open sets the namespaces that the operator has opened to anonymous callers. It is called once,
// before any decision.
func (x *Index) Open(namespaces []string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, name := range namespaces {
		x.opened[name] = struct{}{}
	}
}

// anybody decides for an anonymous caller, under the read lock. In a namespace opened by the
// operator, it may use paths and patterns, except system paths; this ends as soon as the namespace
// has a label or an access list in force.
func (x *Index) anybody(v sluice.Verb, t Target, now time.Time) error {
	switch {
	case !x.knows(now), !x.knowsOf(t.Namespace):
		return unknown.err(v, t)
	case v == sluice.VerbAdmin, t.Path == "" && t.Pattern == "", t.reserved(), !x.anybodys(t.Namespace):
		return sluice.Errorf(sluice.Unauthenticated, "send the header Authorization: Bearer <token>; anonymous access is denied")
	}
	return nil
}

// showsAnybody decides whether an anonymous caller may see an event, under the read lock. Its
// subscriptions end when the namespace is deleted or closed to anonymous callers.
func (x *Index) showsAnybody(ev *sluice.Event) model.Decision {
	if d := x.holdsAnybody(ev.Namespace); d != model.Pass {
		return d
	}
	switch {
	case ev.Path.Reserved(), ev.Extensions[sluice.AttributeClassification] != "":
		return model.Withhold
	}
	return model.Pass
}

// holdsAnybody decides whether an anonymous caller's subscription in a namespace may still exist.
func (x *Index) holdsAnybody(namespace string) model.Decision {
	switch {
	case !x.knowsOf(namespace):
		return model.Undecided
	case !x.anybodys(namespace):
		return model.Lost
	}
	return model.Pass
}

// anybodys reports whether the operator has opened a namespace to anonymous callers, and neither a
// label nor an access list denies it.
func (x *Index) anybodys(namespace string) bool {
	_, opened := x.opened[namespace]
	return opened && x.labels[namespace].Public() && x.lists[namespace].open()
}
