package catalogue

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Index has the catalogues of all namespaces. It is safe for concurrent use. Every replica has one,
// which follows the records of namespaces and types. Publishing an event reads it, so reads take
// only a read lock. A namespace that is not known yet is open and has no types.
type Index struct {
	mu     sync.RWMutex
	spaces map[string]*space
}

// space is a namespace's catalogue.
type space struct {
	revision uint64 // of the namespace
	strict   bool
	types    map[string]*entry
}

// entry is an event type. It is immutable.
type entry struct {
	sluice.EventType

	compiled func() (*schema, error) // returns nil, nil if it has no schema
}

// New returns an empty index.
func New() *Index { return &Index{spaces: map[string]*space{}} }

// SetNamespace sets a namespace's catalogue mode. It ignores outdated revisions, as SetType does.
func (x *Index) SetNamespace(ns sluice.Namespace) {
	x.mu.Lock()
	defer x.mu.Unlock()
	s := x.space(ns.Name)
	if ns.Revision >= s.revision {
		s.revision, s.strict = ns.Revision, ns.Catalogue == sluice.CatalogueStrict
	}
}

// RemoveNamespace forgets a namespace and its types, unless a later revision than the given one is known.
func (x *Index) RemoveNamespace(name string, revision uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if s := x.spaces[name]; s != nil && s.revision <= revision {
		delete(x.spaces, name)
	}
}

// SetType sets an event type. Its schema is compiled when it is first needed. A schema that cannot
// be compiled, because another release stored it, refuses every event of its type instead of
// letting it pass.
func (x *Index) SetType(t sluice.EventType) {
	e := &entry{EventType: t}
	if len(t.Schema) > 0 {
		e.compiled = sync.OnceValues(func() (*schema, error) { return compile(t.Schema) })
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	s := x.space(t.Namespace)
	if known := s.types[t.Type]; known == nil || known.Revision < t.Revision {
		s.types[t.Type] = e
	}
}

// RemoveType forgets an event type, unless a later revision than the given one is known.
func (x *Index) RemoveType(namespace, eventType string, revision uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	s := x.spaces[namespace]
	if s == nil {
		return
	}
	if known := s.types[eventType]; known != nil && known.Revision <= revision {
		delete(s.types, eventType)
	}
}

// space returns a namespace's catalogue, a new one if there is none. The lock is held.
func (x *Index) space(name string) *space {
	s := x.spaces[name]
	if s == nil {
		s = &space{types: map[string]*entry{}}
		x.spaces[name] = s
	}
	return s
}

// find returns a type, nil if there is none, and whether its namespace is strict.
func (x *Index) find(namespace, eventType string) (e *entry, strict bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	s := x.spaces[namespace]
	if s == nil {
		return nil, false
	}
	return s.types[eventType], s.strict
}

// of returns the type of an event; nil for a system event.
func (x *Index) of(ev *sluice.Event) (e *entry, strict bool) {
	if ev.Path.Reserved() {
		return nil, false
	}
	return x.find(ev.Namespace, cmp.Or(ev.Type, sluice.DefaultType))
}

// Type returns an event type, and whether there is one.
func (x *Index) Type(namespace, eventType string) (sluice.EventType, bool) {
	e, _ := x.find(namespace, eventType)
	if e == nil {
		return sluice.EventType{}, false
	}
	return e.EventType, true
}

// Types returns the event types of a namespace, ordered by name. The result is not nil. The schemas
// are shared and must not be changed.
func (x *Index) Types(namespace string) []sluice.EventType {
	x.mu.RLock()
	defer x.mu.RUnlock()
	all := []sluice.EventType{}
	if s := x.spaces[namespace]; s != nil {
		for _, e := range s.types {
			all = append(all, e.EventType)
		}
	}
	slices.SortFunc(all, func(a, b sluice.EventType) int { return strings.Compare(a.Type, b.Type) })
	return all
}

// All returns the event types of all namespaces, in no order.
func (x *Index) All() []sluice.EventType {
	x.mu.RLock()
	defer x.mu.RUnlock()
	var all []sluice.EventType
	for _, s := range x.spaces {
		for _, e := range s.types {
			all = append(all, e.EventType)
		}
	}
	return all
}

// Count returns how many event types a namespace has.
func (x *Index) Count(namespace string) int {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if s := x.spaces[namespace]; s != nil {
		return len(s.types)
	}
	return 0
}

// Check returns why an event is not allowed by its namespace's catalogue, nil for all events of an
// open namespace and for system events. Codes UnknownEventType; InvalidEventData, with pointer and
// reason. The budget of a check bounds the cost of the schema (meter.go). Empty data counts as
// null.
func (x *Index) Check(ev *sluice.Event) error {
	e, strict := x.of(ev)
	switch {
	case !strict:
		return nil
	case e == nil:
		return unknown(ev.Namespace, cmp.Or(ev.Type, sluice.DefaultType))
	}
	return e.check(ev)
}

// CheckData returns why an event's data does not match its type in the catalogue, whether the
// namespace is strict or open. Codes NotFound if the type is not in it; InvalidEventData. It
// returns nil for a type without a schema.
func (x *Index) CheckData(ev *sluice.Event) error {
	e, _ := x.of(ev)
	if e == nil {
		return missing(ev.Namespace, ev.Type)
	}
	return e.check(ev)
}

func unknown(namespace, eventType string) error {
	return sluice.Errorf(sluice.UnknownEventType, "type %q is not in the strict catalogue of %s; add it first, or use a type of the catalogue", cut(eventType, maxQuoted*2), namespace).
		With("type", cut(eventType, maxQuoted*2))
}

func (e *entry) check(ev *sluice.Event) error {
	if e.compiled == nil {
		return nil
	}
	s, err := e.compiled()
	if err != nil {
		return fmt.Errorf("%w (of type %s): %w", sluice.Errorf(sluice.InvalidEventData, "the schema of the type cannot be used"), e.Type, err)
	}
	f := &fault{reason: "the content type is not JSON, but the type has a JSON Schema"}
	if ev.IsJSON() || len(ev.Data) == 0 {
		if f, err = s.check(ev.Data); err != nil {
			return err
		}
	}
	if f == nil {
		return nil
	}
	where := "the data"
	if f.pointer != "" {
		where += " at " + f.pointer
	}
	return sluice.Errorf(sluice.InvalidEventData, "%s does not match the schema of %s: %s", where, e.Type, f.reason).
		With("type", e.Type).With("pointer", f.pointer).With("reason", f.reason)
}

// CheckTypes returns an error (UnknownEventType) if one of a filter's patterns matches no type of a
// strict namespace (S4-64). It returns nil for an open namespace. The cost is O(patterns × types).
func (x *Index) CheckTypes(namespace string, patterns []string) error {
	x.mu.RLock()
	defer x.mu.RUnlock()
	s := x.spaces[namespace]
	if s == nil || !s.strict {
		return nil
	}
	for _, pattern := range patterns {
		if !s.has(pattern) {
			return sluice.Errorf(sluice.UnknownEventType, "filter.types %q: not in the strict catalogue of %s", cut(pattern, maxTypes), namespace).
				With("type", cut(pattern, maxTypes)).With("field", "filter.types")
		}
	}
	return nil
}

const maxTypes = 256 // bytes of a type in a refusal

// has reports whether a pattern matches all types, or one of the namespace or of the server.
func (s *space) has(pattern string) bool {
	if pattern == "*" || s.types[pattern] != nil {
		return true
	}
	one := []string{pattern}
	for name := range s.types {
		if sluice.MatchType(one, name) {
			return true
		}
	}
	return slices.ContainsFunc(sluice.SystemTypes(), func(name string) bool { return sluice.MatchType(one, name) })
}

// Summary returns the members of an event's data that the catalogue includes in its summary, as a
// JSON object in the catalogue's order, each byte for byte. It returns nil if there is no summary:
// the type is not in the catalogue or has no summary fields, or the data is not a JSON object. The
// caller owns the result.
func (x *Index) Summary(ev *sluice.Event) []byte {
	e, _ := x.of(ev)
	if e == nil || len(e.SummaryFields) == 0 {
		return nil
	}
	fields := members(ev)
	if fields == nil {
		return nil
	}
	b := []byte{'{'}
	for _, name := range e.SummaryFields {
		value, ok := fields[name]
		if !ok {
			continue
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(append(sluice.AppendString(b, name), ':'), value...)
	}
	return append(b, '}')
}

// Labels returns the static labels of an event's type. The caller must not change them.
func (x *Index) Labels(ev *sluice.Event) map[string]string {
	e, _ := x.of(ev)
	if e == nil {
		return nil
	}
	return e.StaticLabels
}
