package registry

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
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
		if e.Field == "" {
			return sluice.Errorf(sluice.InvalidRequest, "a JSON %s is not what is expected here", e.Value)
		}
		return sluice.Errorf(sluice.InvalidRequest, "field %q: a JSON %s is not what is expected", e.Field, e.Value).With("field", e.Field)
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
