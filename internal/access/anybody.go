package access

import (
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// RequireOfAnybody returns an error unless somebody of whom nothing is known may do something with a path of
// a namespace that the operator has opened to everybody: that is not so of the server's own paths, and
// ends as soon as the namespace has a label or an access list that is closed. Codes Unauthenticated; Unavailable.
func (x *Index) RequireOfAnybody(v sluice.Verb, t Target, now time.Time) error {
	x.mu.RLock()
	defer x.mu.RUnlock()
	switch {
	case !x.knows(now):
		return unknown.err(v, t)
	case v == sluice.VerbAdmin, t.Path == "", t.reserved(), !x.anybodys(t.Namespace):
		return sluice.Errorf(sluice.Unauthenticated, "send the header Authorization: Bearer <token>; this is not for everybody")
	}
	return nil
}

// ShowsAnybody says whether somebody of whom nothing is known may see an event.
func (x *Index) ShowsAnybody(ev *sluice.Event, now time.Time) sluice.Decision {
	x.mu.RLock()
	defer x.mu.RUnlock()
	switch {
	case !x.knows(now):
		return sluice.Undecided
	case ev.Path.Reserved(), !x.anybodys(ev.Namespace), ev.Extensions[sluice.AttributeClassification] != "":
		return sluice.Withhold
	case x.tombstones[ev.Namespace][ev.Path] >= ev.Seq && ev.Seq > 0:
		return sluice.Withhold
	}
	return sluice.Pass
}

// anybodys reports whether neither a label nor an access list keeps anybody from a namespace.
func (x *Index) anybodys(namespace string) bool {
	return x.labels[namespace].Public() && x.lists[namespace].open()
}
