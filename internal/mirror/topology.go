package mirror

import "github.com/sluice-io/sluice/pkg/sluice"

// Edge is a mirror between two namespaces of this server.
type Edge struct {
	ID         string
	Subscriber string
	Source     string // a namespace or a URL
	Settled    bool
	Revision   uint64 // of two edges that are not settled, the later one yields
}

// before reports whether an edge counts against a new one.
func (e Edge) before(one Edge) bool {
	return e.ID != one.ID && (e.Settled || e.Revision < one.Revision)
}

// edges holds all mirrors by subscriber, source and id, so that checking a new one does not take
// longer with more mirrors. The engine's lock guards it. It has the mirrors of all replicas,
// settled or not. A remote source has its URL as the key, which is no name of a namespace.
type edges map[string]map[string]map[string]Edge

// set adds or replaces an edge.
func (all edges) set(e Edge) {
	if all[e.Subscriber] == nil {
		all[e.Subscriber] = map[string]map[string]Edge{}
	}
	of := all[e.Subscriber]
	if of[e.Source] == nil {
		of[e.Source] = map[string]Edge{}
	}
	of[e.Source][e.ID] = e
}

// drop forgets an edge.
func (all edges) drop(e Edge) {
	of := all[e.Subscriber]
	if delete(of[e.Source], e.ID); len(of[e.Source]) == 0 {
		delete(of, e.Source)
	}
	if len(of) == 0 {
		delete(all, e.Subscriber)
	}
}

// conflict returns an error if a new mirror repeats a pair (SubscriptionExists, S3-107) or closes a
// cycle (MirrorCycle, S3-108, S3-120). Of two mirrors that are created at once, one stays: each is
// stored before it is compared with the others, so the later one sees the earlier.
func (all edges) conflict(one Edge) error {
	for _, other := range all[one.Subscriber][one.Source] {
		if other.before(one) {
			return sluice.Errorf(sluice.SubscriptionExists, "%s mirrors %s already", one.Subscriber, one.Source).With("subscription_id", other.ID)
		}
	}
	if all.reaches(one) {
		return sluice.Errorf(sluice.MirrorCycle, "%s mirrors %s, directly or through others; content flows one way", one.Source, one.Subscriber)
	}
	return nil
}

// reaches reports whether the source of a new mirror has content of its subscriber, through any
// number of mirrors. The cost is O(edges that are reachable from the source).
func (all edges) reaches(one Edge) bool {
	seen := map[string]bool{one.Source: true}
	for queue := []string{one.Source}; len(queue) > 0; queue = queue[1:] {
		if queue[0] == one.Subscriber {
			return true
		}
		for next, mirrors := range all[queue[0]] {
			if !seen[next] && counts(mirrors, one) {
				seen[next] = true
				queue = append(queue, next)
			}
		}
	}
	return false
}

// counts reports whether one of the mirrors of a pair counts against a new one.
func counts(mirrors map[string]Edge, one Edge) bool {
	for _, other := range mirrors {
		if other.before(one) {
			return true
		}
	}
	return false
}
