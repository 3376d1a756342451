package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Decode parses one JSON value into target. Code InvalidRequest, naming the field, for an unknown
// field, a field of another type, or trailing data.
func Decode(data []byte, target any) error {
	return decode(data, target, sluice.InvalidRequest)
}

// DecodeFilter parses a filter; empty data is the empty filter. Code UnknownFilter for an unknown
// dimension (S4-78, C19): ignoring it would match too much.
func DecodeFilter(data json.RawMessage) (sluice.Filter, error) {
	var filter sluice.Filter
	if len(data) == 0 {
		return filter, nil
	}
	err := DecodeExactly(data, &filter, sluice.UnknownFilter)
	return filter, err
}

// DecodeExactly is Decode with case-sensitive names. encoding/json accepts "CEL" for "cel", and
// uses the last of both, so that one in a merge patch could lose against the other.
func DecodeExactly(data []byte, target any, unknown sluice.Code) error {
	if err := decode(data, target, unknown); err != nil {
		return err
	}
	if name := misspelt(data, reflect.TypeOf(target)); name != "" {
		return sluice.Errorf(unknown, "field %q is unknown", name).With("field", name)
	}
	return nil
}

// misspelt returns a name in a JSON value that does not exactly match a field of the type, "" if
// there is none. Types with their own decoder are not inspected.
func misspelt(data []byte, t reflect.Type) string {
	if t.Kind() == reflect.Pointer {
		return misspelt(data, t.Elem())
	}
	if reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) || t.Kind() != reflect.Struct {
		return ""
	}
	var members map[string]json.RawMessage // null has no members
	_ = json.Unmarshal(data, &members)     // already parsed
	types := fieldTypes(t)
	for _, name := range slices.Sorted(maps.Keys(members)) {
		field, ok := types[name]
		if !ok {
			return name
		}
		if within := misspelt(members[name], field); within != "" {
			return within
		}
	}
	return ""
}

// fieldTypes returns the types of a struct's fields by their JSON names. Fields without a name are
// under "" and "-", which the decoder has refused by then.
func fieldTypes(t reflect.Type) map[string]reflect.Type {
	types := map[string]reflect.Type{}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		types[name] = f.Type
	}
	return types
}

func decode(data []byte, target any, unknown sluice.Code) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(target); err != nil {
		return explain(err, unknown)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return sluice.Errorf(sluice.InvalidRequest, "unexpected data after the JSON value")
	}
	return nil
}

// explain converts errors of encoding/json to messages about the request.
func explain(err error, unknown sluice.Code) error {
	if e, ok := errors.AsType[*sluice.Error](err); ok {
		return e
	}
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		field := fieldOf(e)
		if field == "" {
			return sluice.Errorf(sluice.InvalidRequest, "a JSON %s is not expected here%s", e.Value, insteadOf(e))
		}
		return sluice.Errorf(sluice.InvalidRequest, "field %q: a JSON %s is not expected%s", field, e.Value, insteadOf(e)).With("field", field)
	}
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		field := strings.Trim(name, `"`)
		return sluice.Errorf(unknown, "field %q is unknown", field).With("field", field)
	}
	if e, ok := errors.AsType[*json.SyntaxError](err); ok && strings.Contains(e.Error(), "max depth") {
		return sluice.Errorf(sluice.InvalidRequest, "the JSON is nested too deep; the limit is 10,000 levels")
	}
	return sluice.Errorf(sluice.InvalidRequest, "the body is not valid JSON")
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
