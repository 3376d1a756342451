package mirror

import "github.com/sluice-io/sluice/pkg/sluice"

// Edge is a mirror between two namespaces of this server.
type Edge struct {
	ID         string
	Subscriber string
	Source     string // a namespace or a URL
	Settled    bool
	Revision   uint64 // of two that are not settled, the later one yields
}

// before reports whether an edge counts against a new one.
func (e Edge) before(one Edge) bool {
	return e.ID != one.ID && (e.Settled || e.Revision < one.Revision)
}

// conflict returns the error (Conflict) for a new mirror beside the others: the same pair again (S3-107),
// or a cycle (S3-108, S3-120). Of two that are created at once one stays: each was stored before it was
// compared with the others, so that the later one sees the earlier.
func conflict(one Edge, all []Edge) error {
	sources := map[string][]string{}
	for _, other := range all {
		if !other.before(one) {
			continue
		}
		if other.Subscriber == one.Subscriber && other.Source == one.Source {
			return sluice.Errorf(sluice.SubscriptionExists, "%s mirrors %s already", one.Subscriber, one.Source).With("subscription_id", other.ID)
		}
		sources[other.Subscriber] = append(sources[other.Subscriber], other.Source)
	}
	if reaches(one.Source, one.Subscriber, sources) {
		return sluice.Errorf(sluice.MirrorCycle, "%s mirrors %s, directly or through others; content flows one way", one.Source, one.Subscriber)
	}
	return nil
}

// reaches reports whether a namespace has content of another in mirrors, breadth first.
func reaches(from, to string, sources map[string][]string) bool {
	seen := map[string]bool{from: true}
	for queue := []string{from}; len(queue) > 0; queue = queue[1:] {
		if queue[0] == to {
			return true
		}
		for _, next := range sources[queue[0]] {
			if !seen[next] {
				seen[next] = true
				queue = append(queue, next)
			}
		}
	}
	return false
}
