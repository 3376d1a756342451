package httpapi

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/pkg/sluice"
)

const (
	maxDepth   = 1000    // levels of arrays and objects
	maxMembers = 100_000 // of one object
	fewMembers = 16      // up to which they are compared one by one
)

// jsonBody returns the request's body, which is JSON that everybody reads alike, or nothing.
func jsonBody(c echo.Context) ([]byte, error) {
	data, err := body(c)
	if err != nil {
		return nil, err
	}
	return data, checkJSON(data)
}

// checkJSON returns an error (InvalidRequest) for JSON that others may read otherwise than we do, or
// that is expensive to read: a name that an object has twice, what is not UTF-8, very
// deep nesting, very many members. Whether it is JSON at all is for the decoder to say.
func checkJSON(data []byte) error {
	if !utf8.Valid(data) {
		return sluice.Errorf(sluice.InvalidRequest, "the body is not valid UTF-8")
	}
	var w walk
	for i := 0; i < len(data); i++ {
		switch c := data[i]; c {
		case '"':
			end := endOfString(data, i)
			if err := w.text(data[i:end]); err != nil {
				return err
			}
			i = end - 1
		case '{', '[':
			if err := w.open(c == '{'); err != nil {
				return err
			}
		case '}', ']':
			w.depth = max(0, w.depth-1)
		case ',':
			w.next()
		}
	}
	return nil
}

// endOfString returns where the string that begins at i ends, its quotes included.
func endOfString(data []byte, i int) int {
	for i++; i < len(data); i++ {
		switch data[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(data)
}

// walk is where in a JSON text we are.
type walk struct {
	levels []level // those beyond depth are kept for their memory
	depth  int
}

// level is an array or an object that is open.
type level struct {
	object bool
	named  bool     // the next string is a value
	names  [][]byte // of the first few members
	seen   map[string]struct{}
}

func (w *walk) open(object bool) error {
	if w.depth == maxDepth {
		return sluice.Errorf(sluice.InvalidRequest, "the JSON is nested too deep; %d levels is the most", maxDepth)
	}
	if w.depth == len(w.levels) {
		w.levels = append(w.levels, level{})
	}
	l := &w.levels[w.depth]
	*l = level{object: object, names: l.names[:0]}
	w.depth++
	return nil
}

func (w *walk) next() {
	if w.depth > 0 {
		w.levels[w.depth-1].named = false
	}
}

// text is told of every string.
func (w *walk) text(quoted []byte) error {
	if w.depth == 0 {
		return nil
	}
	l := &w.levels[w.depth-1]
	if !l.object || l.named {
		return nil
	}
	l.named = true
	name := bytes.Trim(quoted, `"`)
	if bytes.IndexByte(quoted, '\\') >= 0 {
		var plain string
		if json.Unmarshal(quoted, &plain) != nil {
			return nil //nolint:nilerr // the decoder says what is wrong with it
		}
		name = []byte(plain)
	}
	if !l.add(name) {
		return sluice.Errorf(sluice.InvalidRequest, "an object has the member %.100q twice", name)
	}
	if len(l.seen) > maxMembers {
		return sluice.Errorf(sluice.InvalidRequest, "an object has more than %d members", maxMembers)
	}
	return nil
}

// add reports whether the name is new.
func (l *level) add(name []byte) bool {
	if l.seen != nil {
		_, ok := l.seen[string(name)]
		l.seen[string(name)] = struct{}{}
		return !ok
	}
	for _, other := range l.names {
		if bytes.Equal(other, name) {
			return false
		}
	}
	if l.names = append(l.names, name); len(l.names) > fewMembers {
		l.seen = make(map[string]struct{}, 4*fewMembers)
		for _, other := range l.names {
			l.seen[string(other)] = struct{}{}
		}
	}
	return true
}
