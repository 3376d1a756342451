package catalogue

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Limits of schemas and of the JSON that they validate.
const (
	maxDepth  = 128     // levels of data
	maxLevels = 64      // levels of a schema
	maxValues = 100_000 // of data: members, elements and their containers
	maxDigits = 400     // of a number, and its maximum exponent
)

var errNotJSON = errors.New("not JSON")

// decode returns a JSON value with its numbers in their original form. An error names the exceeded
// limit. depth is the number of levels below the value itself. It decodes all of the data before it
// checks the limits, so callers must bound its size.
func decode(data []byte, depth int) (any, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return nil, errNotJSON
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errNotJSON
	}
	values := 0
	return v, within(v, depth, &values)
}

// within returns an error unless the value keeps the limits.
func within(v any, depth int, values *int) error {
	if *values++; *values > maxValues {
		return errors.New("it has more than " + strconv.Itoa(maxValues) + " values")
	}
	if depth < 0 {
		return errors.New("nested too deep")
	}
	switch v := v.(type) {
	case map[string]any:
		for _, member := range v {
			if err := within(member, depth-1, values); err != nil {
				return err
			}
		}
	case []any:
		for _, element := range v {
			if err := within(element, depth-1, values); err != nil {
				return err
			}
		}
	case json.Number:
		return countable(v.String())
	}
	return nil
}

// countable returns an error for a number with a short form and an expensive value, such as
// 1e999999.
func countable(number string) error {
	_, exponent, _ := strings.Cut(strings.ToLower(number), "e")
	n, err := strconv.Atoi(exponent)
	if len(number) > maxDigits || exponent != "" && (err != nil || n > maxDigits || n < -maxDigits) {
		return errors.New("it has a number of more than " + strconv.Itoa(maxDigits) + " digits")
	}
	return nil
}

// members returns the members of the data if it is a JSON object, else nil.
func members(e *sluice.Event) map[string]json.RawMessage {
	var fields map[string]json.RawMessage
	if !e.IsJSON() || json.Unmarshal(e.Data, &fields) != nil {
		return nil
	}
	return fields
}
