package filter

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strconv"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// topLevel returns the members of the data if it is a JSON object, else nil (S2-70, S2-71).
func topLevel(e *sluice.Event) map[string]json.RawMessage {
	var fields map[string]json.RawMessage
	if !e.IsJSON() || json.Unmarshal(e.Data, &fields) != nil {
		return nil
	}
	return fields
}

// scalar returns a string's value, or a number or bool as JSON writes it. Other values have no
// comparable form (S2-66…69).
func scalar(raw json.RawMessage) (string, bool) {
	if len(raw) == 0 {
		return "", false
	}
	switch raw[0] {
	case '"':
		var s string
		err := json.Unmarshal(raw, &s)
		return s, err == nil
	case '{', '[', 'n':
		return "", false
	}
	return string(raw), true
}

// decode returns the data's JSON value, with integers as int64 or uint64, so that they keep their
// digits and support arithmetic. It returns false for data that is no JSON, and for text after the
// value. A fraction, or an integer beyond 64 bits, is a float64; a number that is too large for
// that is the string of its digits.
func decode(e *sluice.Event) (any, bool) {
	if !e.IsJSON() {
		return nil, false
	}
	d := json.NewDecoder(bytes.NewReader(e.Data))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return nil, false
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, false
	}
	return numbers(v), true
}

func numbers(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, member := range v {
			v[k] = numbers(member)
		}
	case []any:
		for i, element := range v {
			v[i] = numbers(element)
		}
	case json.Number:
		return number(v.String())
	}
	return v
}

func number(s string) any {
	if i, err := strconv.ParseInt(s, 10, 64); err == nil {
		return i
	}
	if u, err := strconv.ParseUint(s, 10, 64); err == nil {
		return u
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return s // too large for a float64: it stays the text of its digits
	}
	return f
}
