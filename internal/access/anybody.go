package access

import (
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Open says which namespaces the operator has opened to everybody. It is called once, before anything is asked.
func (x *Index) Open(namespaces []string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, name := range namespaces {
		x.opened[name] = struct{}{}
	}
}

// anybody answers somebody of whom nothing is known, under the read lock. In a namespace that the operator has opened
// to everybody it may do something with paths, or with all that a pattern matches, but for the server's own; that
// ends as soon as the namespace has a label or an access list that is closed.
func (x *Index) anybody(v sluice.Verb, t Target, now time.Time) error {
	switch {
	case !x.knows(now), !x.knowsOf(t.Namespace):
		return unknown.err(v, t)
	case v == sluice.VerbAdmin, t.Path == "" && t.Pattern == "", t.reserved(), !x.anybodys(t.Namespace):
		return sluice.Errorf(sluice.Unauthenticated, "send the header Authorization: Bearer <token>; this is not for everybody")
	}
	return nil
}

// showsAnybody says whether somebody of whom nothing is known may see an event, under the read lock. What it
// subscribed to it loses with the namespace.
func (x *Index) showsAnybody(ev *sluice.Event) sluice.Decision {
	if d := x.holdsAnybody(ev.Namespace); d != sluice.Pass {
		return d
	}
	switch {
	case ev.Path.Reserved(), ev.Extensions[sluice.AttributeClassification] != "":
		return sluice.Withhold
	}
	return sluice.Pass
}

// holdsAnybody says whether what somebody of whom nothing is known subscribed to in a namespace is still for everybody.
func (x *Index) holdsAnybody(namespace string) sluice.Decision {
	switch {
	case !x.knowsOf(namespace):
		return sluice.Undecided
	case !x.anybodys(namespace):
		return sluice.Lost
	}
	return sluice.Pass
}

// anybodys reports whether the operator has opened a namespace to everybody, and neither a label nor an access
// list keeps anybody from it.
func (x *Index) anybodys(namespace string) bool {
	_, opened := x.opened[namespace]
	return opened && x.labels[namespace].Public() && x.lists[namespace].open()
}
