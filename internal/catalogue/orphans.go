package catalogue

import (
	"cmp"
	"slices"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Orphans returns the types that subscriptions name but that their namespace's strict catalogue no
// longer has, so that no event of these types can arrive (S2-47), ordered by namespace and type.
// Cancelled subscriptions do not count.
func (x *Index) Orphans(subs []*sluice.Subscription) (orphans []sluice.OrphanedType) {
	for _, sub := range subs {
		if sub.State == sluice.Cancelled {
			continue
		}
		for i, t := range sub.Filter.Types {
			if slices.Contains(sub.Filter.Types[:i], t) || x.CheckTypes(sub.Namespace, []string{t}) == nil {
				continue
			}
			at, known := slices.BinarySearchFunc(orphans, sluice.OrphanedType{Namespace: sub.Namespace, Type: t}, compareOrphans)
			if !known {
				orphans = slices.Insert(orphans, at, sluice.OrphanedType{Namespace: sub.Namespace, Type: t})
			}
			orphans[at].Count++
		}
	}
	return orphans
}

func compareOrphans(a, b sluice.OrphanedType) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Type, b.Type))
}
