package catalogue

import (
	"cmp"
	"maps"
	"slices"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Orphan is a type that subscriptions name but that their namespace's strict catalogue no longer
// has, so that no event of it can come (S2-47).
type Orphan struct {
	Namespace, Type string
}

// Orphans returns the orphans of subscriptions, by namespace and type, and how many subscriptions
// name each. Cancelled subscriptions do not count.
func (x *Index) Orphans(subs []*sluice.Subscription) (orphans []Orphan, count map[Orphan]int) {
	count = map[Orphan]int{}
	for _, sub := range subs {
		if sub.State == sluice.Cancelled {
			continue
		}
		for i, t := range sub.Filter.Types {
			if !slices.Contains(sub.Filter.Types[:i], t) && x.CheckTypes(sub.Namespace, []string{t}) != nil {
				count[Orphan{sub.Namespace, t}]++
			}
		}
	}
	orphans = slices.SortedFunc(maps.Keys(count), func(a, b Orphan) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Type, b.Type))
	})
	return orphans, count
}
