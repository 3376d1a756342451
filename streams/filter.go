package streams

import (
	"slices"
	"strings"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Filter is one consumer's filter subject. What an inexact one lets through beyond the
// pattern has to be matched again.
type Filter struct {
	Subject string
	Exact   bool
}

// Filters returns the filter subjects of a pattern, one for each consumer: two when the
// pattern ends in "**" after a literal segment, because "a.>" does not hold "a" itself and
// two filters on one consumer slow catching up by a factor of fifty. Together they let
// through what the pattern matches, each event once. Behind a wildcard in front they also let
// through the server's own paths, which a subject cannot leave out: they are not exact then.
func Filters(namespace string, pattern sluice.Pattern) []Filter {
	filters := globs(namespace, pattern.Segments())
	for i := range filters {
		filters[i].Exact = filters[i].Exact && !pattern.WildFirst()
	}
	return filters
}

// globs returns the filters of a pattern for which every path is like any other.
func globs(namespace string, segs []string) []Filter {
	deep := slices.Index(segs, "**")
	if deep < 0 {
		return []Filter{{Subject: wild(namespace, segs), Exact: true}}
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
		default: // a literal after "**": everything below the prefix has to be looked at
			return []Filter{{Subject: below(namespace, segs[:deep])}}
		}
	}
	if least == 0 && len(prefix) > 0 {
		return []Filter{{Subject: below(namespace, prefix), Exact: true}, {Subject: wild(namespace, prefix), Exact: true}}
	}
	stars := slices.Repeat([]string{"*"}, max(least-1, 0))
	return []Filter{{Subject: below(namespace, slices.Concat(prefix, stars)), Exact: true}}
}

// Superset returns one filter that covers the pattern, for a subscription whose lane is all
// of its events and which therefore needs them from one consumer.
func Superset(namespace string, pattern sluice.Pattern) Filter {
	filters := Filters(namespace, pattern)
	if len(filters) == 1 {
		return filters[0]
	}
	segs := pattern.Segments()
	return Filter{Subject: below(namespace, segs[:slices.Index(segs, "**")-1])}
}

// below returns the filter of the paths that have at least one segment more.
func below(namespace string, segs []string) string { return wild(namespace, segs) + ".>" }

func wild(namespace string, segs []string) string {
	var b strings.Builder
	b.WriteString(eventsPrefix + namespace)
	for _, s := range segs {
		if s == "*" {
			b.WriteString(".*")
		} else {
			b.WriteString(encode("", []string{s}, harmless))
		}
	}
	return b.String()
}
