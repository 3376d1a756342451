package sluice

import (
	"slices"
	"strings"
)

// MatchType reports whether an event's type matches one of the patterns. A pattern is an exact
// type, "*" for all types, or a prefix followed by ".*", where "*" matches one character or more.
func MatchType(patterns []string, eventType string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		prefix, ok := strings.CutSuffix(p, "*")
		return p == eventType || ok && (prefix == "" || strings.HasSuffix(prefix, ".")) && len(eventType) > len(prefix) && strings.HasPrefix(eventType, prefix)
	})
}
