// Package jsonarray decodes JSON arrays with a limit: an array that is too long is refused before
// its elements cost any memory. Decoding into a slice and counting afterwards costs up to fifty
// times the body.
package jsonarray

import (
	"encoding/json"
	"errors"
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

// Decode is Split with each element decoded as encoding/json does it. The value null is no
// elements. Errors are those of Split and of json.Unmarshal.
func Decode[T any](data []byte, most int) ([]T, error) {
	if string(data) == "null" {
		return nil, nil
	}
	elements, err := Split(data, most)
	if err != nil {
		return nil, err
	}
	all := make([]T, len(elements))
	for i, element := range elements {
		if err := json.Unmarshal(element, &all[i]); err != nil {
			return nil, err //nolint:wrapcheck // callers check for the types of encoding/json
		}
	}
	return all, nil
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
