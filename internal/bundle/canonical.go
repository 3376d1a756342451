package bundle

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/gowebpki/jcs"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// maxSequence is the last sequence that RFC 8785 can represent.
const maxSequence = 1<<53 - 1

// invalid returns the error for a bundle that is malformed or contradicts itself.
func invalid(format string, args ...any) *sluice.Error {
	return sluice.Errorf(sluice.Unprocessable, "bundle: "+format, args...)
}

// split returns the members of a JSON object, without copies. The values share the memory of data,
// and have a capacity that ends with them, so that an append does not overwrite the next member.
// Names with escapes are refused, because two spellings of one name would be two members here and
// one for other parsers. Code Unprocessable. The cost is O(len(data)).
func split(data []byte) (map[string][]byte, error) {
	if !json.Valid(data) {
		return nil, invalid("it is not valid JSON")
	}
	data = bytes.TrimSpace(data)
	if data[0] != '{' {
		return nil, invalid("it is not a JSON object")
	}
	members := map[string][]byte{}
	for at := afterSpace(data, 1); data[at] != '}'; {
		end := endOfValue(data, at)
		name := string(data[at+1 : end-1])
		if _, ok := members[name]; ok || strings.Contains(name, `\`) {
			return nil, invalid("member %.100q is ambiguous", name)
		}
		at = afterSpace(data, afterSpace(data, end)+1) // after the colon
		end = endOfValue(data, at)
		members[name] = data[at:end:end]
		if at = afterSpace(data, end); data[at] == ',' {
			at = afterSpace(data, at+1)
		}
	}
	return members, nil
}

// assemble is the inverse of split for canonical members with plain names. It returns the canonical
// object, and the position in it of the value of the named member.
func assemble(members map[string][]byte, name string) (text []byte, at int) {
	size := 1 << 10
	for _, value := range members {
		size += len(value)
	}
	text = append(make([]byte, 0, size), '{')
	for _, n := range slices.Sorted(maps.Keys(members)) {
		if len(text) > 1 {
			text = append(text, ',')
		}
		text = append(appendString(text, n), ':')
		if n == name {
			at = len(text)
		}
		text = append(text, members[n]...)
	}
	return append(text, '}'), at
}

// afterSpace returns the position of the first byte from at on that is no white space of JSON; the
// length of data if there is none.
func afterSpace(data []byte, at int) int {
	for at < len(data) && strings.IndexByte(" \t\r\n", data[at]) >= 0 {
		at++
	}
	return at
}

// endOfValue returns the end of the JSON value that starts at a position of valid JSON. For invalid
// JSON it returns some position within the text.
func endOfValue(data []byte, at int) int {
	for depth := 0; at < len(data); at++ {
		switch data[at] {
		case '"':
			at = endOfString(data, at) - 1
		case '{', '[':
			depth++
			continue
		case '}', ']':
			if depth--; depth < 0 {
				return at
			}
		case ',', ' ', '\t', '\r', '\n', ':':
			if depth == 0 {
				return at
			}
			continue
		default:
			continue
		}
		if depth == 0 {
			return at + 1
		}
	}
	return at
}

// endOfString returns the end of the string that starts at a position, including its quotes.
func endOfString(data []byte, at int) int {
	for at++; at < len(data); at++ {
		switch data[at] {
		case '\\':
			at++
		case '"':
			return at + 1
		}
	}
	return len(data)
}

// shape is the result of a walk through a JSON text.
type shape struct {
	exact         bool // RFC 8785 preserves the value of each number
	depth, values int  // levels of arrays and objects; commas and brackets
}

// shapeOf expects valid JSON; it does not report errors.
func shapeOf(text []byte) shape {
	s := shape{exact: true}
	depth := 0
	for at := 0; at < len(text); at++ {
		switch c := text[at]; {
		case c == '"':
			at = endOfString(text, at) - 1
		case c == '{' || c == '[':
			depth++
			s.values++
			s.depth = max(s.depth, depth)
		case c == '}' || c == ']':
			depth--
		case c == ',':
			s.values++
		case c == '-' || '0' <= c && c <= '9':
			end := at + 1
			for end < len(text) && strings.IndexByte("0123456789.eE+-", text[end]) >= 0 {
				end++
			}
			s.exact = s.exact && survives(string(text[at:end]))
			at = end - 1
		}
	}
	return s
}

// survives reports whether a number keeps its value in RFC 8785, which represents numbers as
// doubles.
func survives(number string) bool {
	double, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return false
	}
	text, err := jcs.NumberToJSON(double)
	return err == nil && (text == number || decimalOf(text) == decimalOf(number))
}

// decimal is a number as digits without leading and trailing zeros, and the power of ten of the
// last digit.
type decimal struct {
	negative bool
	digits   string
	exponent int
}

// decimalOf returns the value of a JSON number; zero has no digits.
func decimalOf(number string) decimal {
	mantissa, power, _ := strings.Cut(strings.ToLower(number), "e")
	mantissa, negative := strings.CutPrefix(mantissa, "-")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	if digits == "" {
		return decimal{}
	}
	exponent := -len(fraction)
	if n, err := strconv.Atoi(power); err == nil {
		exponent += n
	} else if power != "" { // outside the range of doubles
		return decimal{digits: number}
	}
	kept := strings.TrimRight(digits, "0")
	return decimal{negative, kept, exponent + len(digits) - len(kept)}
}

// canonical returns the RFC 8785 form of a JSON text. Numbers become doubles: call shapeOf first
// where a value must survive. Code Unprocessable.
func canonical(text []byte) ([]byte, error) {
	c, err := jcs.Transform(text)
	if err != nil {
		return nil, invalid("it has no RFC 8785 form: %v", err)
	}
	return c, nil
}
