package strictjson

import (
	"bytes"
	"cmp"
	"encoding"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Decode parses one JSON value into target. It returns an error with code InvalidRequest: for an
// unknown field or a field of another type, with the path of the field; for a syntax error, with
// its line and column; and for trailing data. A target that is Hinted adds how to write the field.
//
// Names are case-sensitive: encoding/json accepts "CEL" for "cel", and uses the last of the two, so
// that in a merge patch one could overwrite the other.
func Decode(data []byte, target any) error { return DecodeAs(data, target, sluice.InvalidRequest) }

// DecodeAs is Decode with another code for unknown fields.
func DecodeAs(data []byte, target any, unknown sluice.Code) error {
	return decodeExactly(data, target, unknown, hintsOf(target))
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
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if !hasNames(t) {
		return ""
	}
	for name, value := range parts(data) {
		field, ok := partType(t, name, same)
		if !ok {
			return name
		}
		if within := unknownIn(value, field, same); within != "" {
			return strings.TrimPrefix(name+"."+within, ".")
		}
	}
	return ""
}

// refusedIn finds a value that the decoder of its own type refuses, and returns its path and type:
// nil if there is none. The path is "" if the value is not in an object; that of an element is the
// path of its array.
func refusedIn(data []byte, t reflect.Type) (path string, refused reflect.Type) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if ownDecoder(t) {
		if json.Unmarshal(data, reflect.New(t).Interface()) == nil {
			return "", nil
		}
		return "", t
	}
	for name, value := range parts(data) {
		part, ok := partType(t, name, strings.EqualFold)
		if !ok {
			continue
		}
		if within, refused := refusedIn(value, part); refused != nil {
			return strings.Trim(name+"."+within, "."), refused
		}
	}
	return "", nil
}

// ofField returns the error of a type's own decoder, with the path of the value.
func ofField(e *sluice.Error, path string) error {
	if path == "" || e.Details["field"] != nil {
		return e
	}
	says := strings.TrimPrefix(e.Message, path+": ")
	return (&sluice.Error{Code: e.Code, Message: path + ": " + says, Details: maps.Clone(e.Details)}).With("field", path)
}

// ofValue returns the error for a value that its type refuses with an error of its own.
func ofValue(err error, path string, t reflect.Type) error {
	says := err.Error()
	if t == reflect.TypeFor[time.Time]() {
		says = "use an RFC 3339 time such as 2006-01-02T15:04:05Z"
	}
	if path == "" {
		return sluice.Errorf(sluice.InvalidRequest, "%s", says)
	}
	return sluice.Errorf(sluice.InvalidRequest, "field %q: %s", path, says).With("field", path)
}

func isSame(a, b string) bool { return a == b }

func ownDecoder(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(reflect.TypeFor[json.Unmarshaler]()) || p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// hasNames reports whether values of a type may have names of fields, at any level.
func hasNames(t reflect.Type) bool {
	switch t.Kind() { //nolint:exhaustive // the others have no parts
	case reflect.Struct:
		return !ownDecoder(t)
	case reflect.Slice, reflect.Array, reflect.Map, reflect.Pointer:
		return !ownDecoder(t) && hasNames(t.Elem())
	}
	return false
}

// partType returns the type of a field with a JSON name, or of the elements of an array or map.
// Fields without a JSON name match no name: the decoder has already refused values with theirs.
func partType(t reflect.Type, name string, same func(string, string) bool) (found reflect.Type, ok bool) {
	switch t.Kind() { //nolint:exhaustive // the others have no parts
	case reflect.Slice, reflect.Array, reflect.Map:
		return t.Elem(), true
	case reflect.Struct:
	default:
		return nil, false
	}
	for f := range t.Fields() { // reflect.VisibleFields is slow
		tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && f.Type.Kind() == reflect.Struct && tag == "":
			if inner, is := partType(f.Type, name, same); is {
				found, ok = inner, true
			}
		case tag == name:
			return f.Type, true
		case same(tag, name):
			found, ok = f.Type, true
		}
	}
	return found, ok
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
		path, _ := refusedIn(data, reflect.TypeOf(target))
		return ofField(e, path)
	}
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		field := fieldOf(e)
		if field == "" {
			return sluice.Errorf(sluice.InvalidRequest, "a JSON %s is not expected here%s%s", e.Value, insteadOf(e), hints().such(""))
		}
		return sluice.Errorf(sluice.InvalidRequest, "field %q: a JSON %s is not expected%s%s", field, e.Value, insteadOf(e), hints().such(field)).With("field", field)
	}
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		path := cmp.Or(unknownIn(data, reflect.TypeOf(target), strings.EqualFold), strings.Trim(name, `"`)) // own decoders are not inspected
		return unknownField(path, unknown, reflect.TypeOf(target), hints)
	}
	if _, ok := errors.AsType[*json.SyntaxError](err); ok || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return syntaxError(data, err, hints)
	}
	path, t := refusedIn(data, reflect.TypeOf(target))
	return ofValue(err, path, t)
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
