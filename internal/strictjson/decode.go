package strictjson

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Decode parses one JSON value into target. It returns an error with code InvalidRequest: for an
// unknown field or a field of another type, with the path of the field; for a syntax error, with
// its line and column; and for trailing data. A target that is Hinted adds how to write the field.
func Decode(data []byte, target any) error {
	return decode(data, target, sluice.InvalidRequest, hintsOf(target))
}

// DecodeFilter parses a filter; empty data is the empty filter. Code UnknownFilter for an unknown
// dimension (S4-78, C19), because a filter that ignored it would match too many events.
func DecodeFilter(data json.RawMessage) (sluice.Filter, error) {
	var within struct { // for the paths of its fields
		Filter sluice.Filter `json:"filter"`
	}
	if len(data) == 0 {
		return within.Filter, nil
	}
	if !json.Valid(data) {
		return within.Filter, SyntaxError(data)
	}
	err := decodeExactly(slices.Concat([]byte(`{"filter":`), data, []byte("}")), &within, sluice.UnknownFilter, filterHints)
	return within.Filter, err
}

func filterHints() Hints {
	types, cel, pattern := Hint{"filter.types", `{"filter":{"types":["order.*"]}}`}, Hint{"filter.cel", `{"filter":{"cel":"event.data.total > 100"}}`}, Hint{Use: "the pattern of the subscription"}
	return Hints{
		"filter": {Example: `{"types":["order.*"]}`}, "eventtypes": types, "eventtype": types, "events": types, "topics": types, "filtertypes": types, "enabledevents": types,
		"expression": cel, "expr": cel, "condition": cel, "conditions": cel, "query": cel, "where": cel, "jsonpath": cel,
		"tags": {"filter.labels", `{"filter":{"labels":{"region":["eu"]}}}`}, "data": cel, "body": cel,
		"path": pattern, "paths": pattern, "pattern": pattern,
	}
}

// DecodeExactly is Decode with case-sensitive names. encoding/json accepts "CEL" for "cel", and
// uses the last of the two, so that in a merge patch one could overwrite the other.
func DecodeExactly(data []byte, target any, unknown sluice.Code) error {
	return decodeExactly(data, target, unknown, hintsOf(target))
}

func decodeExactly(data []byte, target any, unknown sluice.Code, hints lazyHints) error {
	if err := decode(data, target, unknown, hints); err != nil {
		return err
	}
	if path := unknownIn(data, reflect.TypeOf(target), isSame); path != "" {
		return unknownField(path, unknown, reflect.TypeOf(target), hints)
	}
	return nil
}

func unknownField(path string, code sluice.Code, t reflect.Type, hints lazyHints) error {
	return sluice.Errorf(code, "field %q is unknown%s", path, hints().instead(path, t)).With("field", path)
}

// unknownIn returns the path of a name in a JSON value that does not match a field of the type; ""
// if there is none. The function same decides whether two names match. Types with their own decoder
// are not inspected.
func unknownIn(data []byte, t reflect.Type, same func(string, string) bool) string {
	if t.Kind() == reflect.Pointer {
		return unknownIn(data, t.Elem(), same)
	}
	if ownDecoder(t) || t.Kind() != reflect.Struct {
		return ""
	}
	var members map[string]json.RawMessage // null has no members
	_ = json.Unmarshal(data, &members)     // already parsed
	types := fieldTypes(t)
	for _, name := range slices.Sorted(maps.Keys(members)) {
		field, ok := types[name]
		for other, its := range types {
			if !ok && same(other, name) {
				field, ok = its, true
			}
		}
		if !ok {
			return name
		}
		if within := unknownIn(members[name], field, same); within != "" {
			return name + "." + within
		}
	}
	return ""
}

// refusedIn returns the path of the value that the decoder of its own type refuses; "" if the value
// is not in an object.
func refusedIn(data []byte, t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return ""
	}
	var members map[string]json.RawMessage
	_ = json.Unmarshal(data, &members) // valid, or it would not have been decoded
	types := fieldTypes(t)
	for _, name := range slices.Sorted(maps.Keys(members)) {
		field, ok := types[name]
		switch {
		case !ok:
		case ownDecoder(field):
			if json.Unmarshal(members[name], reflect.New(field).Interface()) != nil {
				return name
			}
		default:
			if within := refusedIn(members[name], field); within != "" {
				return name + "." + within
			}
		}
	}
	return ""
}

// ofField returns the error of a type's own decoder, with the path of the value.
func ofField(e *sluice.Error, path string) error {
	if path == "" || e.Details["field"] != nil {
		return e
	}
	says := strings.TrimPrefix(e.Message, path+": ")
	return (&sluice.Error{Code: e.Code, Message: path + ": " + says, Details: maps.Clone(e.Details)}).With("field", path)
}

func isSame(a, b string) bool { return a == b }

func ownDecoder(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]())
}

// fieldTypes returns the types of a struct's fields by their JSON names. Fields without a JSON name
// are under "" and "-"; the decoder has already refused values with these names.
func fieldTypes(t reflect.Type) map[string]reflect.Type {
	types := map[string]reflect.Type{}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		types[name] = f.Type
	}
	return types
}

func decode(data []byte, target any, unknown sluice.Code, hints lazyHints) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(target); err != nil {
		return explain(err, data, target, unknown, hints)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return sluice.Errorf(sluice.InvalidRequest, "unexpected data after the JSON value")
	}
	return nil
}

// explain converts errors of encoding/json to messages about the request.
func explain(err error, data []byte, target any, unknown sluice.Code, hints lazyHints) error {
	if e, ok := errors.AsType[*sluice.Error](err); ok {
		return ofField(e, refusedIn(data, reflect.TypeOf(target)))
	}
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		field := fieldOf(e)
		if field == "" {
			return sluice.Errorf(sluice.InvalidRequest, "a JSON %s is not expected here%s%s", e.Value, insteadOf(e), hints().such(""))
		}
		return sluice.Errorf(sluice.InvalidRequest, "field %q: a JSON %s is not expected%s%s", field, e.Value, insteadOf(e), hints().such(field)).With("field", field)
	}
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		path := cmp.Or(unknownIn(data, reflect.TypeOf(target), strings.EqualFold), strings.Trim(name, `"`)) // the elements of arrays are not inspected
		return unknownField(path, unknown, reflect.TypeOf(target), hints)
	}
	return syntaxError(data, err, hints)
}

// SyntaxError returns the error (InvalidRequest) for data that is not JSON, with the line and column.
func SyntaxError(data []byte) error {
	var value json.RawMessage
	return decode(data, &value, sluice.InvalidRequest, hintsOf(nil))
}

func syntaxError(data []byte, err error, hints lazyHints) error {
	if len(bytes.TrimSpace(data)) == 0 {
		return sluice.Errorf(sluice.InvalidRequest, "the body is empty; send JSON%s", hints().such(""))
	}
	at, says := len(data), "it ends too early"
	if e, ok := errors.AsType[*json.SyntaxError](err); ok {
		if strings.Contains(e.Error(), "max depth") {
			return sluice.Errorf(sluice.InvalidRequest, "the JSON is nested too deep; the limit is 10,000 levels")
		}
		at, says = max(0, int(e.Offset)-1), e.Error()
	}
	line, column := position(data, at)
	return sluice.Errorf(sluice.InvalidRequest, "the body is not valid JSON: line %d, column %d: %s", line, column, says).With("line", line).With("column", column)
}

// position returns the line and column, in characters, of an offset.
func position(data []byte, at int) (line, column int) {
	before := data[:min(at, len(data))]
	return bytes.Count(before, []byte("\n")) + 1, utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:]) + 1
}

// fieldOf returns the JSON name of the field, without the enclosing Go types.
func fieldOf(e *json.UnmarshalTypeError) string {
	names := strings.Split(e.Field, ".")
	return strings.Join(slices.DeleteFunc(names, func(name string) bool { return name != "" && 'A' <= name[0] && name[0] <= 'Z' }), ".")
}

// insteadOf names the valid type, if there is exactly one.
func insteadOf(e *json.UnmarshalTypeError) string {
	switch kind := e.Type.Kind(); {
	case kind == reflect.String:
		return "; use a string"
	case kind == reflect.Bool:
		return "; use true or false"
	case kind <= reflect.Float64: // below the numeric kinds, only Bool
		return "; use a number"
	case kind == reflect.Slice || kind == reflect.Array:
		return "; use an array"
	case kind == reflect.Struct || kind == reflect.Map:
		return "; use an object"
	}
	return ""
}
