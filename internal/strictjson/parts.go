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
		name, start := "", 0
		for i := range marks(data) {
			switch data[i] {
			case '{', '[':
			case ':':
				name = nameIn(data[start:i])
			default:
				if value := bytes.TrimSpace(data[start:i]); len(value) > 0 && !yield(name, value) {
					return
				}
			}
			start = i + 1
		}
	}
}

// marks yields the positions of the brackets, commas and colons of the first JSON value in data, and
// none of the values in it.
func marks(data []byte) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i, depth := 0, 0; i < len(data); i++ {
			level := depth
			switch data[i] {
			case '"':
				i = endOfString(data, i) - 1
				continue
			case '{', '[':
				depth++
				level = depth
			case '}', ']':
				depth--
			case ',', ':':
			default:
				continue
			}
			if level == 1 && !yield(i) || depth == 0 {
				return
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
