package clientgen

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// expr is a type expression in each language.
type expr struct{ ts, py string }

func unknown() expr { return expr{"unknown", "Any"} }

// typ is a named type: an object with fields, or another name for an expression. alias is nil for
// an object with fields. from is the schema that defines it, which tells two types of the same name
// apart. The fields are ordered by name.
type typ struct {
	name   string
	doc    string
	from   *schema
	fields []field
	more   *expr // type of further members
	alias  *expr
}

type field struct {
	name     string
	doc      string
	of       expr
	required bool
}

// model holds the types and operations from which both clients are generated. types are by name. It
// is built by newModel and not changed afterwards; the writers of the two languages only read it,
// so their output has the same order.
type model struct {
	doc   *document
	types map[string]*typ
	ops   []op
}

// newModel returns the model of a document. Types, fields and operations are in the order of their
// names, so the same document gives the same files. ErrorCode is added although no operation refers
// to it.
func newModel(text []byte) (*model, error) {
	doc, err := parse(text)
	if err != nil {
		return nil, err
	}
	m := &model{doc: doc, types: map[string]*typ{}}
	for _, path := range slices.Sorted(maps.Keys(doc.Paths)) {
		if err := m.addPath(path, doc.Paths[path]); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(m.ops, func(a, b op) int { return cmp.Compare(a.id, b.id) })
	_, err = m.ref("ErrorCode")
	return m, err
}

// sorted returns the types by name.
func (m *model) sorted() []*typ {
	return slices.SortedFunc(maps.Values(m.types), func(a, b *typ) int { return cmp.Compare(a.name, b.name) })
}

// ref returns the type of a named schema, and adds it to the model with all types that it refers
// to.
func (m *model) ref(name string) (expr, error) {
	s := m.doc.Components.Schemas[name]
	if s == nil {
		return expr{}, fmt.Errorf("no schema %s", name)
	}
	return m.define(name, s)
}

// define adds a named type, unless the model has it. Two different schemas of one name are an
// error, because one would silently replace the other.
func (m *model) define(name string, s *schema) (expr, error) {
	if there := m.types[name]; there != nil {
		if there.from != s {
			return expr{}, fmt.Errorf("two types are named %s", name)
		}
		return expr{name, name}, nil
	}
	t := &typ{name: name, doc: sentence(s.Description), from: s}
	m.types[name] = t // set before its fields, which may refer to it
	of := m.doc.flat(s)
	if len(of.Properties) == 0 {
		alias, err := m.plain(name, of)
		t.alias = &alias
		return expr{name, name}, err
	}
	more, err := of.additional()
	if err != nil {
		return expr{}, fmt.Errorf("%s: %w", name, err)
	}
	if more != nil {
		e, err := m.expr(name+"Member", more)
		if err != nil {
			return expr{}, err
		}
		t.more = &e
	}
	for _, key := range slices.Sorted(maps.Keys(of.Properties)) {
		p := of.Properties[key]
		e, err := m.expr(name+camel(key), p)
		if err != nil {
			return expr{}, err
		}
		t.fields = append(t.fields, field{key, sentence(p.Description), e, slices.Contains(of.Required, key)})
	}
	return expr{name, name}, nil
}

// expr returns the type of a schema. An object with members of its own becomes a type of the name.
func (m *model) expr(name string, s *schema) (expr, error) {
	if s == nil {
		return unknown(), nil
	}
	if ref := s.only(); ref != "" {
		return m.ref(named(ref))
	}
	if of := m.doc.flat(s); len(of.Properties) > 0 {
		return m.define(name, s)
	}
	return m.plain(name, s)
}

// plain returns the type of a schema that has no members of its own.
func (m *model) plain(name string, s *schema) (expr, error) {
	switch {
	case s.Const != nil:
		return literals([]any{s.Const})
	case len(s.Enum) > 0:
		return literals(s.Enum)
	case len(s.OneOf)+len(s.AnyOf) > 0:
		return m.union(name, slices.Concat(s.OneOf, s.AnyOf))
	}
	switch of := s.Type.(type) {
	case nil:
		return unknown(), nil
	case []any:
		all := make([]*schema, len(of))
		for i := range of {
			one := *s
			one.Type = of[i]
			all[i] = &one
		}
		return m.union(name, all)
	case string:
		return m.simple(name, of, s)
	default:
		return expr{}, fmt.Errorf("%s: type %v", name, s.Type)
	}
}

// simple returns the type for one name of a type. A format is ignored; an integer of 64 bits is a
// number in TypeScript.
func (m *model) simple(name, of string, s *schema) (expr, error) {
	switch of {
	case "string":
		return expr{"string", "str"}, nil
	case "integer":
		return expr{"number", "int"}, nil
	case "number":
		return expr{"number", "float"}, nil
	case "boolean":
		return expr{"boolean", "bool"}, nil
	case "null":
		return expr{"null", "None"}, nil
	case "array":
		item, err := m.expr(name+"Item", s.Items)
		return array(item), err
	case "object":
		more, err := s.additional()
		if err != nil || more == nil {
			return expr{"Record<string, unknown>", "dict[str, Any]"}, err
		}
		e, err := m.expr(name+"Member", more)
		return expr{"Record<string, " + e.ts + ">", "dict[str, " + e.py + "]"}, err
	default:
		return expr{}, fmt.Errorf("%s: type %s", name, of)
	}
}

// array returns the type of a list; a union is put into parentheses in TypeScript.
func array(item expr) expr {
	if strings.ContainsAny(item.ts, " |") {
		item.ts = "(" + item.ts + ")"
	}
	return expr{item.ts + "[]", "list[" + item.py + "]"}
}

// union returns the union of the types of several schemas. It names objects after a member that
// they require.
func (m *model) union(name string, all []*schema) (expr, error) {
	each := make([]expr, len(all))
	for i, s := range all {
		member := name
		if len(s.Required) > 0 {
			member += camel(s.Required[0])
		}
		e, err := m.expr(member, s)
		if err != nil {
			return expr{}, err
		}
		each[i] = e
	}
	return join(each), nil
}

// join returns a union without repetitions.
func join(all []expr) expr {
	var ts, py []string
	for _, e := range all {
		if e == unknown() {
			return e
		}
		if !slices.Contains(ts, e.ts) {
			ts = append(ts, e.ts)
		}
		if !slices.Contains(py, e.py) {
			py = append(py, e.py)
		}
	}
	return expr{strings.Join(ts, " | "), strings.Join(py, " | ")}
}

// literals returns the union of constants; null, true and false differ in Python.
func literals(values []any) (expr, error) {
	var ts, py []string
	for _, v := range values {
		text, err := json.Marshal(v)
		if err != nil {
			return expr{}, fmt.Errorf("literal %v: %w", v, err)
		}
		ts = append(ts, string(text))
		py = append(py, map[string]string{"true": "True", "false": "False", "null": "None"}[string(text)])
		if py[len(py)-1] == "" {
			py[len(py)-1] = string(text)
		}
	}
	return expr{strings.Join(ts, " | "), "Literal[" + strings.Join(py, ", ") + "]"}, nil
}

// camel converts a name with underscores or hyphens to a part of a type's name.
func camel(name string) string {
	var b strings.Builder
	for part := range strings.FieldsFuncSeq(name, func(r rune) bool { return r == '_' || r == '-' }) {
		b.WriteString(strings.ToUpper(part[:1]) + part[1:])
	}
	return b.String()
}

// sentence returns the first sentence of a text, on one line.
func sentence(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if end := strings.Index(text, ". "); end >= 0 {
		text = text[:end+1]
	}
	return strings.ReplaceAll(text, "*/", "*\\/")
}
