// Package jsonarray decodes JSON arrays with a limit. It refuses an array that is too long before
// it decodes the elements: decoding into a slice first would cost up to fifty times the size of the
// body in memory.
package jsonarray

import (
	"encoding/json"
	"errors"
	"slices"
)

// Errors of Split and Decode.
var (
	ErrTooMany  = errors.New("the array has too many elements")
	ErrNotArray = errors.New("the value is not a JSON array")
	ErrNotJSON  = errors.New("the value is not valid JSON")
)

// Split returns the elements of a JSON array, at most most, as parts of data, without copying.
// White space around the elements is not part of them. Errors: ErrNotJSON; ErrNotArray; ErrTooMany.
func Split(data []byte, most int) ([]json.RawMessage, error) {
	if !json.Valid(data) {
		return nil, ErrNotJSON
	}
	return split(data, most)
}

// split is Split for valid JSON.
func split(data []byte, most int) ([]json.RawMessage, error) {
	at := afterSpace(data, 0)
	if data[at] != '[' {
		return nil, ErrNotArray
	}
	var elements []json.RawMessage
	for at = afterSpace(data, at+1); data[at] != ']'; {
		if len(elements) == most {
			return nil, ErrTooMany
		}
		end := endOfValue(data, at)
		elements = append(elements, json.RawMessage(data[at:end:end]))
		if at = afterSpace(data, end); data[at] == ',' {
			at = afterSpace(data, at+1)
		}
	}
	return elements, nil
}

// Decode returns the elements of a valid JSON array, at most most, each decoded as encoding/json
// does it. It is for methods UnmarshalJSON and parts of decoded JSON, which are known to be valid.
// For null it returns no elements. Errors: ErrNotArray; ErrTooMany; those of json.Unmarshal.
func Decode[T any](valid []byte, most int) ([]T, error) {
	if string(valid) == "null" {
		return nil, nil
	}
	elements, err := split(valid, most)
	if err != nil {
		return nil, err
	}
	all := make([]T, len(elements))
	for i, element := range elements {
		if err := decode(element, &all[i]); err != nil {
			return nil, err //nolint:wrapcheck // callers check for the types of encoding/json
		}
	}
	return all, nil
}

// decode decodes a valid value. It does not validate the syntax again if the type decodes itself.
func decode(value []byte, into any) error {
	if u, ok := into.(json.Unmarshaler); ok {
		return u.UnmarshalJSON(value) //nolint:wrapcheck // as json.Unmarshal
	}
	return json.Unmarshal(value, into) //nolint:wrapcheck // as json.Unmarshal
}

// Cut returns the value of a member of a valid JSON object, as a part of object, and a copy of the
// object with null in place of the value. So the rest can be decoded without parsing the value. It
// returns nil and the object if no member has this name without escapes.
func Cut(object []byte, name string) (value, rest []byte) {
	start, end := member(object, name)
	if end == 0 {
		return nil, object
	}
	return object[start:end:end], slices.Concat(object[:start], []byte("null"), object[end:])
}

// member returns where the value of a member begins and ends; 0 and 0 if there is none.
func member(object []byte, name string) (start, end int) {
	at := afterSpace(object, 0)
	if object[at] != '{' {
		return 0, 0
	}
	for at = afterSpace(object, at+1); object[at] == '"'; at = afterSpace(object, at) {
		quote := endOfString(object, at)
		start = afterSpace(object, afterSpace(object, quote+1)+1)
		end = endOfValue(object, start)
		if string(object[at+1:quote]) == name {
			return start, end
		}
		if at = afterSpace(object, end); object[at] == ',' {
			at++
		}
	}
	return 0, 0
}

// afterSpace returns the first position from at on that is not JSON white space.
func afterSpace(data []byte, at int) int {
	for at < len(data) && (data[at] == ' ' || data[at] == '\t' || data[at] == '\n' || data[at] == '\r') {
		at++
	}
	return at
}

// endOfValue returns the end of the element that begins at at. The data is valid JSON.
func endOfValue(data []byte, at int) int {
	for depth := 0; ; at++ {
		switch data[at] {
		case '"':
			at = endOfString(data, at)
		case '[', '{':
			depth++
		case ']', '}':
			if depth == 0 { // the end of the array that the element is in
				return at
			}
			depth--
		case ',', ' ', '\t', '\n', '\r':
			if depth == 0 {
				return at
			}
		}
	}
}

// endOfString returns the position of the quote that ends the string that begins at at.
func endOfString(data []byte, at int) int {
	for at++; data[at] != '"'; at++ {
		if data[at] == '\\' {
			at++
		}
	}
	return at
}
