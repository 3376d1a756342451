package strictjson

import (
	"bytes"
	"encoding/json"
	"hash/maphash"
	"unicode/utf8"

	"github.com/sluice-io/sluice/pkg/sluice"
)

const (
	maxDepth   = 1000    // levels of arrays and objects
	maxValues  = 100_000 // in the whole body, without the data of events
	fewMembers = 16      // number of names that are compared one by one
)

// Check returns an error (InvalidRequest) for JSON that parsers interpret differently or that is
// expensive to parse: a duplicate name in an object, invalid UTF-8, deep nesting, very many values.
// The decoder reports syntax errors.
func Check(data []byte) error { return walkThrough(data, walk{}) }

// CheckEvents is Check for an event or an array of events. It ignores their data, which the server
// passes on byte for byte.
func CheckEvents(data []byte) error { return walkThrough(data, walk{events: true}) }

func walkThrough(data []byte, w walk) error {
	if !utf8.Valid(data) {
		return sluice.Errorf(sluice.InvalidRequest, "the body is not valid UTF-8")
	}
	w.levels, w.names, w.seed = make([]level, 0, 16), make([][]byte, 0, 32), maphash.MakeSeed()
	for i := 0; i < len(data); i++ {
		if w.values > maxValues {
			return sluice.Errorf(sluice.InvalidRequest, "the JSON has more than %d values; send fewer", maxValues)
		}
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
			w.close()
		case ',':
			w.next()
		}
	}
	return nil
}

// endOfString returns the index after the string that starts at i, including its quotes.
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

// walk is the state of a walk through a JSON text.
type walk struct {
	levels []level
	names  [][]byte // the first few names of every open object, outermost first
	events bool     // the value of an event's member "data" is not inspected
	inData int      // number of open levels within the data; 0: outside
	values int      // values outside the data of events

	seed maphash.Seed // seed of the name hashes: callers cannot provoke collisions
}

// level is an open array or object.
type level struct {
	object bool
	named  bool                // the next string is a value
	first  int                 // index of its first name
	seen   map[uint64]struct{} // hashes of its names, which take less memory than the names
}

func (w *walk) open(object bool) error {
	if len(w.levels) == maxDepth {
		return sluice.Errorf(sluice.InvalidRequest, "the JSON is nested too deep; the limit is %d levels", maxDepth)
	}
	w.levels = append(w.levels, level{object: object, first: len(w.names)})
	w.count()
	return nil
}

func (w *walk) close() {
	if last := len(w.levels) - 1; last >= 0 {
		if w.inData > last {
			w.inData = 0
		}
		w.names, w.levels = w.names[:w.levels[last].first], w.levels[:last]
	}
}

func (w *walk) next() {
	if len(w.levels) > 0 {
		w.levels[len(w.levels)-1].named = false
	}
	if len(w.levels) == w.inData {
		w.inData = 0
	}
	w.count()
}

// count counts a comma, a bracket or a brace, because each of them starts a value. A decoder
// allocates memory for every value, however short.
func (w *walk) count() {
	if w.inData == 0 {
		w.values++
	}
}

// text handles a string.
func (w *walk) text(quoted []byte) error {
	if len(w.levels) == 0 || w.inData > 0 && len(w.levels) > w.inData {
		return nil
	}
	l := &w.levels[len(w.levels)-1]
	if !l.object || l.named {
		return nil
	}
	l.named = true
	name := bytes.Trim(quoted, `"`)
	if bytes.IndexByte(quoted, '\\') >= 0 {
		var plain string
		if json.Unmarshal(quoted, &plain) != nil {
			return nil //nolint:nilerr // the decoder reports the error
		}
		name = []byte(plain)
	}
	if !w.add(l, name) {
		return sluice.Errorf(sluice.InvalidRequest, "an object has a duplicate member %.100q", name)
	}
	if w.events && string(name) == "data" && w.isEvent() {
		w.inData = len(w.levels)
	}
	return nil
}

// isEvent reports whether the innermost level is an event: the whole text, or an element of it.
func (w *walk) isEvent() bool {
	return len(w.levels) == 1 || len(w.levels) == 2 && !w.levels[0].object
}

// add reports whether the name is new in the innermost level.
func (w *walk) add(l *level, name []byte) bool {
	if l.seen != nil {
		hash := maphash.Bytes(w.seed, name)
		_, ok := l.seen[hash]
		l.seen[hash] = struct{}{}
		return !ok
	}
	for _, other := range w.names[l.first:] {
		if bytes.Equal(other, name) {
			return false
		}
	}
	if w.names = append(w.names, name); len(w.names)-l.first > fewMembers {
		l.seen = make(map[uint64]struct{}, 4*fewMembers)
		for _, other := range w.names[l.first:] {
			l.seen[maphash.Bytes(w.seed, other)] = struct{}{}
		}
	}
	return true
}
