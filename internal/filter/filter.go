// Package filter knows which events a subscription's filter lets through. A filter is a
// conjunction of dimensions; within one, any value will do; and an event that lacks what a
// dimension asks for does not match (S2-140, C19). It is the only package that knows CEL.
package filter

import (
	"slices"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Matcher is a compiled filter. It is safe for concurrent use; the zero value matches every
// event.
type Matcher struct {
	filter sluice.Filter
	cel    *expression // nil: none
}

// Compile returns the filter's matcher. Code InvalidRequest, with line and column, if the CEL
// expression is none or cannot yield a bool.
func Compile(f sluice.Filter) (*Matcher, error) {
	m := &Matcher{filter: f}
	if f.CEL == "" {
		return m, nil
	}
	var err error
	if m.cel, err = compile(f.CEL); err != nil {
		return nil, err
	}
	return m, nil
}

// Match reports whether the filter lets the event through. An error means that nobody can
// tell: the CEL expression failed for another reason than a field that is missing or of
// another type, such as a division by zero or too much work.
func (m *Matcher) Match(e *sluice.Event) (bool, error) {
	f := &m.filter
	ok := (len(f.Types) == 0 || sluice.MatchType(f.Types, e.Type)) &&
		(len(f.Sources) == 0 || anyOf(f.Sources, e.Source)) &&
		(len(f.Subjects) == 0 || anyOf(f.Subjects, e.Subject)) &&
		(len(f.Labels) == 0 || labelled(f.Labels, e))
	if !ok || m.cel == nil {
		return ok, nil
	}
	return m.cel.match(e)
}

func anyOf(values []string, got string) bool {
	return got != "" && slices.Contains(values, got)
}

// labelled looks each label up among the extension attributes first, then among the data's
// top-level scalars, which are decoded only if they are needed.
func labelled(want map[string][]string, e *sluice.Event) bool {
	pending := 0
	for name, values := range want {
		got, ok := e.Extensions[name]
		if ok && !slices.Contains(values, got) {
			return false
		}
		if !ok {
			pending++
		}
	}
	if pending == 0 {
		return true
	}
	fields := topLevel(e)
	for name, values := range want {
		if _, ok := e.Extensions[name]; ok {
			continue
		}
		if got, ok := scalar(fields[name]); !ok || !slices.Contains(values, got) {
			return false
		}
	}
	return true
}
