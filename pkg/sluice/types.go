package sluice

import (
	"slices"
	"strings"
)

// MatchType reports whether an event's type is one of the patterns: exact, or a prefix that
// ends in ".*".
func MatchType(patterns []string, eventType string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		if prefix, ok := strings.CutSuffix(p, "*"); ok {
			return len(eventType) > len(prefix) && strings.HasPrefix(eventType, prefix)
		}
		return p == eventType
	})
}
