package integrity

import (
	"cmp"
	"slices"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Gaps returns the ranges of a namespace's log in which damage was found, ascending; a log with
// very many has one range that spans them. Readers of the log report them. A deleted log has none,
// because its positions are refused. The caller must not change the result. It makes no request and
// takes no lock, because every page of a log calls it.
func (m *Memory) Gaps(namespace string) []sluice.Gap {
	if all := m.gaps.Load(); all != nil {
		return (*all)[namespace]
	}
	return nil
}

// publishGaps makes Gaps return the gaps of the known damage. The caller holds m.mu, or nothing
// runs concurrently yet.
func (m *Memory) publishGaps() {
	all := map[string][]sluice.Gap{}
	for _, d := range m.damage {
		if d.Namespace != "" && d.Kind != sluice.DamageMissing && d.To > 0 {
			from := max(d.From, 1)
			all[d.Namespace] = append(all[d.Namespace], sluice.Gap{From: from, To: d.To, Path: d.Path, Events: cmp.Or(d.Messages, d.To-from+1)})
		}
	}
	for namespace, gaps := range all {
		slices.SortFunc(gaps, func(a, b sluice.Gap) int { return cmp.Compare(a.From, b.From) })
		if len(gaps) > gapsMost {
			all[namespace] = []sluice.Gap{spanning(gaps)}
		}
	}
	m.gaps.Store(&all)
}

// spanning returns one gap that spans all given ones.
func spanning(gaps []sluice.Gap) sluice.Gap {
	one := sluice.Gap{From: gaps[0].From}
	for _, g := range gaps {
		one.To = max(one.To, g.To)
		one.Events += g.Events
	}
	return one
}
