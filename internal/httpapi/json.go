package httpapi

import (
	"bytes"
	"encoding/json"
	"hash/maphash"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/pkg/sluice"
)

const (
	maxDepth   = 1000    // levels of arrays and objects
	maxValues  = 100_000 // of a whole body; the data of events does not count
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
func checkJSON(data []byte) error { return check(data, walk{}) }

// checkEvents is checkJSON for an event or an array of events, whose data is their publisher's affair: it goes
// along byte for byte.
func checkEvents(data []byte) error { return check(data, walk{events: true}) }

func check(data []byte, w walk) error {
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
	levels []level
	names  [][]byte // of the first few members of every object that is open, the outermost first
	events bool     // the value of an event's member "data" is not looked into
	inData int      // how many levels are open around the data that we are in; 0: none
	values int      // begun outside the data of events

	seed maphash.Seed // of the hashes of names: no caller can make two of them collide
}

// level is an array or an object that is open.
type level struct {
	object bool
	named  bool                // the next string is a value
	first  int                 // of its names
	seen   map[uint64]struct{} // hashes of its names: they take less memory than the names do
}

func (w *walk) open(object bool) error {
	if len(w.levels) == maxDepth {
		return sluice.Errorf(sluice.InvalidRequest, "the JSON is nested too deep; %d levels is the most", maxDepth)
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

// count counts a comma, a bracket or a brace, each of which begins a value. A decoder takes memory for each
// value, however short it is.
func (w *walk) count() {
	if w.inData == 0 {
		w.values++
	}
}

// text is told of every string.
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
			return nil //nolint:nilerr // the decoder says what is wrong with it
		}
		name = []byte(plain)
	}
	if !w.add(l, name) {
		return sluice.Errorf(sluice.InvalidRequest, "an object has the member %.100q twice", name)
	}
	if w.events && string(name) == "data" && w.isEvent() {
		w.inData = len(w.levels)
	}
	return nil
}

// isEvent reports whether the innermost level is an event: the whole, or an element of the whole.
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
