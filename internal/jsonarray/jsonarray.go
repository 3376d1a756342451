// Package jsonarray decodes JSON arrays with a limit: an array that is too long is refused before
// its elements cost any memory. Decoding into a slice and counting afterwards costs up to fifty
// times the body.
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

// Split returns the elements of a JSON array, at most this many, as parts of data: nothing is
// copied. Space around the elements is not part of them. Errors: ErrNotJSON; ErrNotArray;
// ErrTooMany.
func Split(data []byte, most int) ([]json.RawMessage, error) {
	if !json.Valid(data) {
		return nil, ErrNotJSON
	}
	return split(data, most)
}

// split is Split of valid JSON.
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

// Decode returns the elements of a valid JSON array, at most this many, each decoded as encoding/json
// does it. It is for methods UnmarshalJSON and parts of decoded JSON. The value null is no elements.
// Errors: ErrNotArray; ErrTooMany; those of json.Unmarshal.
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

// decode decodes a valid value, without a second look at its syntax if the type decodes itself.
func decode(value []byte, into any) error {
	if u, ok := into.(json.Unmarshaler); ok {
		return u.UnmarshalJSON(value) //nolint:wrapcheck // as json.Unmarshal
	}
	return json.Unmarshal(value, into) //nolint:wrapcheck // as json.Unmarshal
}

// Cut returns the value of a member of a valid JSON object, a part of object, and a copy of the object
// with null in its place: the rest is decoded without a look at the value. It returns nil and the
// object if no member has this name, written without escapes.
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
