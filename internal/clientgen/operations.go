package clientgen

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// kind is how the response of an operation is read.
type kind int

const (
	parsed kind = iota // JSON, or nothing
	whole              // status, headers and bytes
	frames             // server-sent events
)

// op is an operation of the clients. method is in capitals, path is the template of the document:
// /v1/subscriptions/{id}.
type op struct {
	id, method, path, summary string

	args    []arg // those in the path in order, then the body, then the others
	kind    kind
	returns expr
}

// arg is an argument. Its name is that in the request; those of headers are in snake case.
type arg struct {
	name, wire string
	in         string // path, query, header, body or media
	of         expr
	required   bool
}

// notCalled matches the operations that clients do not have: CORS, HEAD of the health checks, and
// callbacks, for which a worker must use the URL in the notice.
var notCalled = regexp.MustCompile(`^(headLivez|headHealthz|headReadyz|callback|.*Options)$`)

// HasOperation reports whether the clients have a method for an operation.
func HasOperation(id string) bool { return !notCalled.MatchString(id) }

// Argument returns the name of an argument in TypeScript: that in the request; those of headers are
// in snake case.
func Argument(name string) string { return snake(name) }

// PythonName returns the name of an operation or an argument in Python.
func PythonName(name string) string { return pyReserved(snake(name)) }

// addPath adds the operations of a path, in the order of their methods. Parameters of the path
// belong to each of them.
func (m *model) addPath(path string, item map[string]json.RawMessage) error {
	var shared []parameter
	if text := item["parameters"]; text != nil {
		if err := json.Unmarshal(text, &shared); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	for _, method := range slices.Sorted(maps.Keys(item)) {
		if method == "parameters" {
			continue
		}
		var o operation
		if err := json.Unmarshal(item[method], &o); err != nil {
			return fmt.Errorf("%s %s: %w", method, path, err)
		}
		if !HasOperation(o.ID) {
			continue
		}
		o.Parameters = slices.Concat(shared, o.Parameters)
		one, err := m.op(strings.ToUpper(method), path, &o)
		if err != nil {
			return fmt.Errorf("%s %s: %w", method, path, err)
		}
		m.ops = append(m.ops, one)
	}
	return nil
}

// op returns an operation. Every POST below /v1/ has the optional argument idempotency_key, which
// the document does not list.
func (m *model) op(method, path string, o *operation) (op, error) {
	one := op{id: o.ID, method: method, path: path, summary: sentence(o.Summary)}
	for _, p := range o.Parameters {
		p = resolve(p.Ref, p, m.doc.Components.Parameters)
		of, err := m.expr(camel(o.ID)+camel(p.Name), p.Schema)
		if err != nil {
			return op{}, err
		}
		one.args = append(one.args, arg{snake(p.Name), p.Name, p.In, of, p.Required || p.In == "path"})
	}
	if o.RequestBody != nil {
		body, err := m.body(o)
		if err != nil {
			return op{}, err
		}
		one.args = append(one.args, body...)
	}
	if method == "POST" && strings.HasPrefix(path, "/v1/") {
		one.args = append(one.args, arg{"idempotency_key", "Idempotency-Key", "header", expr{"string", "str"}, false})
	}
	sortArgs(one.args, path)
	var err error
	one.kind, one.returns, err = m.result(method, o)
	return one, err
}

// sortArgs sorts the arguments: those in the path first, then the body, then the required ones.
func sortArgs(args []arg, path string) {
	rank := func(a arg) int {
		switch {
		case a.in == "path":
			return strings.Index(path, "{"+a.wire+"}")
		case a.in == "body":
			return 1000
		case a.required:
			return 1001
		default:
			return 1002
		}
	}
	slices.SortStableFunc(args, func(a, b arg) int { return rank(a) - rank(b) })
}

// body returns the argument for a request body, and one for its content type if there is a choice.
func (m *model) body(o *operation) ([]arg, error) {
	b := resolve(o.RequestBody.Ref, *o.RequestBody, m.doc.Components.RequestBodies)
	var all []expr
	free := false
	for _, media := range slices.Sorted(maps.Keys(b.Content)) {
		if !isJSON(media) {
			free = true
			continue
		}
		e, err := m.expr(camel(o.ID)+"Body", b.Content[media].Schema)
		if err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	if free {
		all = append(all, expr{"Bytes", "Bytes"})
	}
	args := []arg{{"body", "body", "body", join(all), b.Required}}
	if free {
		args = append(args, arg{"content_type", "Content-Type", "header", expr{"string", "str"}, false})
	}
	return args, nil
}

// result returns how successful responses are read, and their type.
func (m *model) result(method string, o *operation) (kind, expr, error) {
	var all []expr
	for _, status := range slices.Sorted(maps.Keys(o.Responses)) {
		if !strings.HasPrefix(status, "2") {
			continue
		}
		name := camel(o.ID) + "Result"
		if len(all) > 0 {
			name += status
		}
		r := o.Responses[status]
		if r.Ref != "" {
			name, r = named(r.Ref), m.doc.Components.Responses[named(r.Ref)]
		}
		of, e, err := m.response(name, r)
		if err != nil || of != parsed {
			return of, e, err
		}
		all = append(all, e)
	}
	if method == "HEAD" || o.ID == "createStream" || o.ID == "appendToStream" {
		return whole, expr{}, nil // the headers are the response
	}
	return parsed, join(all), nil
}

// response returns how a response is read, and its type. Name is for a type that has none.
func (m *model) response(name string, r content) (kind, expr, error) {
	events, hasEvents := r.Content["text/event-stream"]
	_, hasBytes := r.Content["*/*"]
	switch {
	case hasEvents && len(r.Content) == 1:
		e, err := m.expr(name, events.Schema)
		return frames, e, err
	case hasEvents || hasBytes:
		return whole, expr{}, nil
	}
	for _, media := range slices.Sorted(maps.Keys(r.Content)) {
		if isJSON(media) {
			e, err := m.expr(name, r.Content[media].Schema)
			return parsed, e, err
		}
	}
	return parsed, expr{"void", "None"}, nil
}

// isJSON reports whether a media type is one JSON value. NDJSON is a series of values, which
// clients get as bytes.
func isJSON(media string) bool {
	return strings.HasPrefix(media, "application/") && strings.HasSuffix(media, "json") && media != "application/x-ndjson"
}

var capital = regexp.MustCompile(`([a-z0-9])([A-Z])`)

// snake converts the id of an operation or the name of a header to snake case.
func snake(name string) string {
	return strings.ToLower(strings.ReplaceAll(capital.ReplaceAllString(name, "${1}_$2"), "-", "_"))
}
