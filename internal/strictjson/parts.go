package strictjson

import (
	"bytes"
	"encoding/json"
	"iter"
)

// parts yields the members of the first JSON value in data with their names, or its elements
// without. The value is valid. Values are parts of data, without copies.
func parts(data []byte) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		depth, start, name := 0, 0, ""
		for i := 0; i < len(data); i++ {
			switch c := data[i]; {
			case c == '"':
				i = endOfString(data, i) - 1
			case c == '{' || c == '[':
				if depth++; depth == 1 {
					start = i + 1
				}
			case depth == 1 && c == ':':
				name, start = nameIn(data[start:i]), i+1
			case depth == 1 && (c == ',' || c == '}' || c == ']'):
				if value := bytes.TrimSpace(data[start:i]); len(value) > 0 && !yield(name, value) || c != ',' {
					return
				}
				start = i + 1
			case c == '}' || c == ']':
				depth--
			}
		}
	}
}

// nameIn returns the name of a member in quotes.
func nameIn(quoted []byte) (name string) {
	quoted = bytes.TrimSpace(quoted)
	if bytes.IndexByte(quoted, '\\') < 0 {
		return string(bytes.Trim(quoted, `"`))
	}
	_ = json.Unmarshal(quoted, &name) // valid
	return name
}
