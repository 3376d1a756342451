package registry

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"slices"
	"strings"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Decode reads one JSON value into target. Code InvalidRequest, naming the field, if the
// value has a field that target has not, a field is of another type, or something follows.
func Decode(data []byte, target any) error {
	return decode(data, target, sluice.InvalidRequest)
}

// decodeFilter reads a filter; nothing is the empty one. Code UnknownFilter for a dimension
// that does not exist (S4-78, C19): to ignore it would let too much through.
func decodeFilter(data json.RawMessage) (sluice.Filter, error) {
	var filter sluice.Filter
	if len(data) == 0 {
		return filter, nil
	}
	err := decode(data, &filter, sluice.UnknownFilter)
	return filter, err
}

func decode(data []byte, target any, unknown sluice.Code) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(target); err != nil {
		return explain(err, unknown)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return sluice.Errorf(sluice.InvalidRequest, "there is something after the JSON value")
	}
	return nil
}

// explain turns what encoding/json says into words about the request.
func explain(err error, unknown sluice.Code) error {
	if e, ok := errors.AsType[*sluice.Error](err); ok {
		return e
	}
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		field := fieldOf(e)
		if field == "" {
			return sluice.Errorf(sluice.InvalidRequest, "a JSON %s is not what is expected here%s", e.Value, insteadOf(e))
		}
		return sluice.Errorf(sluice.InvalidRequest, "field %q: a JSON %s is not what is expected%s", field, e.Value, insteadOf(e)).With("field", field)
	}
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		field := strings.Trim(name, `"`)
		return sluice.Errorf(unknown, "field %q is unknown", field).With("field", field)
	}
	if e, ok := errors.AsType[*json.SyntaxError](err); ok && strings.Contains(e.Error(), "max depth") {
		return sluice.Errorf(sluice.InvalidRequest, "the JSON is nested too deep; 10,000 levels is the most")
	}
	return sluice.Errorf(sluice.InvalidRequest, "the body is not valid JSON")
}

// fieldOf returns the field's name in the JSON, without those of Go's types that lie around it.
func fieldOf(e *json.UnmarshalTypeError) string {
	names := strings.Split(e.Field, ".")
	return strings.Join(slices.DeleteFunc(names, func(name string) bool { return name != "" && 'A' <= name[0] && name[0] <= 'Z' }), ".")
}

// insteadOf says what would be right, where there is one such thing.
func insteadOf(e *json.UnmarshalTypeError) string {
	switch kind := e.Type.Kind(); {
	case kind == reflect.String:
		return "; use a string"
	case kind == reflect.Bool:
		return "; use true or false"
	case kind >= reflect.Int && kind <= reflect.Float64:
		return "; use a number"
	case kind == reflect.Slice || kind == reflect.Array:
		return "; use an array"
	case kind == reflect.Struct || kind == reflect.Map:
		return "; use an object"
	}
	return ""
}
