package streams

import (
	"slices"
	"strings"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Filter is one consumer's filter subject. Events from an inexact filter must be matched against
// the pattern again.
type Filter struct {
	Subject string
	Exact   bool
}

// Filters returns the filter subjects of a pattern, one per consumer. A pattern that ends in "**"
// after a literal segment has two, because "a.>" does not include "a" itself, and two filters on
// one consumer slow down catching up by a factor of fifty. Together, the filters cover the pattern
// and deliver each event once. A leading wildcard also covers the system paths, which a subject
// cannot exclude: such filters are not exact.
func (n Names) Filters(namespace string, pattern sluice.Pattern) []Filter {
	filters := n.globs(namespace, pattern.Segments())
	for i := range filters {
		filters[i].Exact = filters[i].Exact && !pattern.WildFirst()
	}
	return filters
}

// globs returns the filters of a pattern, disregarding system paths.
func (n Names) globs(namespace string, segs []string) []Filter {
	deep := slices.Index(segs, "**")
	if deep < 0 {
		return []Filter{{Subject: n.wild(namespace, segs), Exact: true}}
	}
	prefix, least := segs[:deep], 0
	for len(prefix) > 0 && prefix[len(prefix)-1] == "*" {
		prefix = prefix[:len(prefix)-1]
	}
	for _, s := range segs[len(prefix):] {
		switch s {
		case "*":
			least++
		case "**":
		default: // a literal after "**": everything below the prefix must be read
			return []Filter{{Subject: n.below(namespace, segs[:deep])}}
		}
	}
	if least == 0 && len(prefix) > 0 {
		return []Filter{{Subject: n.below(namespace, prefix), Exact: true}, {Subject: n.wild(namespace, prefix), Exact: true}}
	}
	stars := slices.Repeat([]string{"*"}, max(least-1, 0))
	return []Filter{{Subject: n.below(namespace, slices.Concat(prefix, stars)), Exact: true}}
}

// Superset returns one filter that covers the pattern, for a subscription with a single lane, which
// needs all its events from one consumer.
func (n Names) Superset(namespace string, pattern sluice.Pattern) Filter {
	filters := n.Filters(namespace, pattern)
	if len(filters) == 1 {
		return filters[0]
	}
	segs := pattern.Segments()
	return Filter{Subject: n.below(namespace, segs[:slices.Index(segs, "**")-1])}
}

// below returns the filter of the paths with at least one more segment.
func (n Names) below(namespace string, segs []string) string { return n.wild(namespace, segs) + ".>" }

func (n Names) wild(namespace string, segs []string) string {
	var b strings.Builder
	b.WriteString(n.dot + eventsPrefix + namespace)
	for _, s := range segs {
		if s == "*" {
			b.WriteString(".*")
		} else {
			b.WriteString(encode("", []string{s}, harmless))
		}
	}
	return b.String()
}
