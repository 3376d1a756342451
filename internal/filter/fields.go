package filter

import (
	"maps"
	"slices"
	"strings"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Bounds of the fields that are collected from the data of events: nesting, and number.
const (
	maxDepth  = 4
	maxFields = 1000
)

// Unseen returns the fields of an event's data that a filter's expression reads and that none of
// the events has, such as "order.total", and the fields that the events have. Code InvalidRequest
// for an invalid expression. Without an expression or events, there are none of either. An event
// without JSON data has no field. The list of known fields is incomplete beyond maxDepth and
// maxFields.
func Unseen(f sluice.Filter, events []sluice.Event) (unseen, known []string, err error) {
	if f.CEL == "" || len(events) == 0 {
		return nil, nil, nil
	}
	read, err := fieldsOf(f.CEL)
	if err != nil {
		return nil, nil, err
	}
	unseen = slices.Collect(maps.Keys(read))
	all := map[string]bool{}
	for i := range events {
		data, ok := decode(&events[i])
		if !ok {
			continue
		}
		unseen = slices.DeleteFunc(unseen, func(field string) bool { return has(data, read[field]) })
		addFields(all, "", data, maxDepth)
	}
	slices.Sort(unseen)
	return unseen, slices.Sorted(maps.Keys(all)), nil
}

// fieldsOf returns the fields of event.data that an expression reads, by their names with dots. A
// field with a name that is computed at run time is not among them.
func fieldsOf(text string) (map[string][]string, error) {
	env, err := environment()
	if err != nil {
		return nil, err
	}
	checked, err := check(env, text)
	if err != nil {
		return nil, err
	}
	read := map[string][]string{}
	ast.PostOrderVisit(checked.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if path, ok := pathOf(e); ok && len(path) > 1 && path[0] == "data" {
			read[strings.Join(path[1:], ".")] = path[1:]
		}
	}))
	return read, nil
}

// pathOf returns the names by which an expression selects a part of the event.
func pathOf(e ast.Expr) (path []string, ok bool) {
	if isEvent(e) {
		return nil, true
	}
	of := operand(e)
	if of == nil {
		return nil, false
	}
	if path, ok = pathOf(of); !ok {
		return nil, false
	}
	if e.Kind() == ast.SelectKind {
		return append(path, e.AsSelect().FieldName()), true
	}
	key := e.AsCall().Args()[1] // of operators.Index
	if key.Kind() != ast.LiteralKind {
		return nil, false
	}
	name, ok := key.AsLiteral().(types.String)
	return append(path, string(name)), ok
}

// has reports whether decoded JSON has a field. It does not search lists: a path that leads into
// one counts as present.
func has(data any, path []string) bool {
	for _, name := range path {
		if _, list := data.([]any); list {
			return true
		}
		object, _ := data.(map[string]any)
		member, ok := object[name]
		if !ok {
			return false
		}
		data = member
	}
	return true
}

// addFields adds the names of an object's fields and, down to depth, of their fields, with dots.
func addFields(all map[string]bool, before string, data any, depth int) {
	object, _ := data.(map[string]any)
	for name, member := range object {
		if len(all) >= maxFields || depth == 0 {
			return
		}
		all[before+name] = true
		addFields(all, before+name+".", member, depth-1)
	}
}
