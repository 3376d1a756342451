// Package filter evaluates the filters of subscriptions. An event matches a filter if it matches
// all of its dimensions: types, sources, subjects, labels and the CEL expression. It matches a
// dimension if it matches any of its values. An event that lacks the attribute of a dimension does
// not match (S2-140, C19). This is the only package that uses CEL.
//
// A filter is evaluated in two ways. A cheap evaluation takes place in the caller's goroutine; a
// Pool does the expensive ones, in turns and within the rates of their payers:
//
//	event ─► rest ──► cheap expression ──► answer           Match, Quick: at once
//	         types,         │ costs more than quickCost,
//	         labels         ▼ or reads much data
//	                 line of the payer ─► turn ─► evaluator ─► answer        Ask, Wait
//	                 compilations first   in credit?   charged when it has run
//
// The unit of all costs is a step of an expression, about a quarter of a microsecond.
package filter

import (
	"slices"
	"strings"
	"sync"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Matcher is a compiled filter. It is safe for concurrent use; the zero value matches every
// event.
type Matcher struct {
	filter sluice.Filter
	cel    *expression // nil: none
	static Labels      // nil: none
}

// Labels returns the static labels of an event's type, which the event need not have itself. The
// caller must not change them. It is called from many goroutines at once, and may return nil.
type Labels func(e *sluice.Event) map[string]string

// Compile returns the filter's matcher. Code InvalidRequest, with line and column, if the CEL
// expression is invalid or cannot yield a bool.
func Compile(f sluice.Filter) (*Matcher, error) { return CompileWith(f, nil) }

// CompileWith is Compile for a filter that also matches the labels of event types; an event's own
// labels win. The matcher calls labels only if the filter has a label that is no extension
// attribute of the event. The limit of one evaluation is that of a subscription. The caller must
// not change the filter any more.
func CompileWith(f sluice.Filter, labels Labels) (*Matcher, error) {
	return compileFilter(f, labels, costLimit)
}

// CompileLive is CompileWith for readers of live events and of many events at once. There may be
// many such readers, so an expression may cost only LiveLimit for each event, a tenth of a
// subscription's limit. Match returns code Unprocessable if it costs more.
func CompileLive(f sluice.Filter, labels Labels) (*Matcher, error) {
	return compileFilter(f, labels, LiveLimit)
}

func compileFilter(f sluice.Filter, labels Labels, most int) (*Matcher, error) {
	m := &Matcher{filter: f, static: labels}
	if f.CEL == "" {
		return m, nil
	}
	var err error
	if m.cel, err = compileWithin(f.CEL, most); err != nil {
		return nil, err
	}
	return m, nil
}

// Spent returns the cost of all evaluations of the expression so far, in the unit of LiveLimit. It
// includes those of all events, by all callers.
func (m *Matcher) Spent() uint64 {
	if m.cel == nil {
		return 0
	}
	return m.cel.spent.Load()
}

// Match reports whether the event passes the filter. An error means that the result is unknown: the
// CEL expression failed for another reason than a field that is missing or of another type, such as
// a division by zero or too much work. With an error, the result is false. It does not change or
// keep the event.
func (m *Matcher) Match(e *sluice.Event) (bool, error) { return m.MatchParsed(e, nil) }

// MatchParsed is Match for an event that several filters evaluate; p belongs to the event and may
// be nil.
func (m *Matcher) MatchParsed(e *sluice.Event, p *Parsed) (bool, error) {
	ok := m.rest(e, p)
	if !ok || m.cel == nil {
		return ok, nil
	}
	ok, _, err := m.cel.within(e, p, m.cel.most)
	return ok, err
}

// rest is MatchParsed for all dimensions except the expression. It cannot fail.
func (m *Matcher) rest(e *sluice.Event, p *Parsed) bool {
	f := &m.filter
	return (len(f.Types) == 0 || sluice.MatchType(f.Types, e.Type)) &&
		(len(f.Sources) == 0 || anyOf(f.Sources, e.Source)) &&
		(len(f.Subjects) == 0 || about(f.Subjects, e)) &&
		(len(f.Labels) == 0 || m.labelled(e, p))
}

func anyOf(values []string, got string) bool {
	return got != "" && slices.Contains(values, got)
}

// about reports whether one of the subjects is the event's entity, or one that the event names as
// related (S2-141).
func about(subjects []string, e *sluice.Event) bool {
	if anyOf(subjects, e.Entity()) {
		return true
	}
	for related := range strings.FieldsSeq(e.Extensions[sluice.RelatedSubjects]) {
		if slices.Contains(subjects, related) {
			return true
		}
	}
	return false
}

// labelled reports whether the event has all labels of the filter. It looks each up among the
// extension attributes first, then among the top-level members of the data, then among the labels
// of the type. It decodes the data only if the extension attributes do not decide.
func (m *Matcher) labelled(e *sluice.Event, p *Parsed) bool {
	pending := 0
	for name, values := range m.filter.Labels {
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
	find := m.otherLabels(e, p)
	for name, values := range m.filter.Labels {
		if _, ok := e.Extensions[name]; ok {
			continue
		}
		if got, ok := find(name); !ok || !slices.Contains(values, got) {
			return false
		}
	}
	return true
}

// otherLabels returns a lookup of the event's labels that are no extension attributes. A member of
// the data that is no scalar is no label, and hides the type's label of that name.
func (m *Matcher) otherLabels(e *sluice.Event, p *Parsed) func(name string) (string, bool) {
	fields := p.topLevel(e)
	var static map[string]string
	if m.static != nil {
		static = m.static(e)
	}
	return func(name string) (string, bool) {
		if raw, ok := fields[name]; ok {
			return scalar(raw)
		}
		got, ok := static[name]
		return got, ok
	}
}

// LabelsOf returns a lookup of an event's labels in the order of a filter: extension attributes,
// top-level scalars of the data, labels of the type. It decodes the data at most once, and only for
// a label that is no extension attribute. The lookup is safe for concurrent use, as long as the
// event does not change.
func LabelsOf(e *sluice.Event, static Labels) func(name string) (string, bool) {
	m := Matcher{static: static}
	others := sync.OnceValue(func() func(string) (string, bool) { return m.otherLabels(e, nil) })
	return func(name string) (string, bool) {
		if got, ok := e.Extensions[name]; ok {
			return got, true
		}
		return others()(name)
	}
}
