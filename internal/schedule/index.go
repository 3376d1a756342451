package schedule

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Mark is a record's position in the list of its namespace, which is ordered by time and then by
// ID.
type Mark struct {
	At   time.Time
	ID   string
	Path sluice.Path // the record's path
	Over bool        // the record has ended

	Label string // the classification of a scheduled event: only publishers with that clearance may see it
}

func (m Mark) compare(other Mark) int {
	return cmp.Or(m.At.Compare(other.At), strings.Compare(m.ID, other.ID))
}

// index holds the marks of all records. It is safe for concurrent use.
type index struct {
	mu    sync.Mutex
	byKey map[string]marked
	lists map[string]*list // by namespace
	wait  map[string]int   // waiting records by namespace
}

type marked struct {
	Mark

	namespace string
	order     uint64
}

func newIndex() *index {
	return &index{byKey: map[string]marked{}, lists: map[string]*list{}, wait: map[string]int{}}
}

// set enters a record's mark as of a revision.
func (x *index) set(namespace, key string, order uint64, m Mark) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.drop(key)
	l := x.lists[namespace]
	if l == nil {
		l = &list{}
		x.lists[namespace] = l
	}
	x.byKey[key] = marked{m, namespace, order}
	if !m.Over {
		x.wait[namespace]++
	}
	l.insert(m)
}

// remove removes a record, if present.
func (x *index) remove(key string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.drop(key)
}

// order returns the known revision of a record, 0 for none.
func (x *index) order(key string) uint64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.byKey[key].order
}

// removeOf removes a record unless another revision of it has become known.
func (x *index) removeOf(key string, order uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.byKey[key].order == order {
		x.drop(key)
	}
}

func (x *index) drop(key string) {
	was, known := x.byKey[key]
	if !known {
		return
	}
	delete(x.byKey, key)
	if !was.Over {
		if x.wait[was.namespace]--; x.wait[was.namespace] == 0 {
			delete(x.wait, was.namespace)
		}
	}
	l := x.lists[was.namespace]
	if l.remove(was.Mark); len(l.chunks) == 0 {
		delete(x.lists, was.namespace)
	}
}

func (x *index) get(key string) (Mark, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	m, ok := x.byKey[key]
	return m.Mark, ok
}

// waiting returns the number of waiting records by namespace.
func (x *index) waiting() map[string]int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return maps.Clone(x.wait)
}

// after returns up to most marks behind m for which want returns true.
func (x *index) after(namespace string, m Mark, most int, want func(Mark) bool) (found []Mark) {
	x.mu.Lock()
	defer x.mu.Unlock()
	l := x.lists[namespace]
	if l == nil {
		return nil
	}
	for c := l.chunkOf(m); c < len(l.chunks); c++ {
		at, same := slices.BinarySearchFunc(l.chunks[c], m, Mark.compare)
		if same {
			at++
		}
		for _, one := range l.chunks[c][at:] {
			if len(found) == most {
				return found
			}
			if want(one) {
				found = append(found, one)
			}
		}
	}
	return found
}

// maxChunk is the maximum length of a chunk. It limits the marks that an insertion moves.
const maxChunk = 512

// list holds marks in order, in chunks that are never empty.
type list struct{ chunks [][]Mark }

// chunkOf returns the index of the first chunk that ends at a mark or behind it.
func (l *list) chunkOf(m Mark) int {
	c, _ := slices.BinarySearchFunc(l.chunks, m, func(chunk []Mark, m Mark) int { return chunk[len(chunk)-1].compare(m) })
	return c
}

func (l *list) insert(m Mark) {
	if len(l.chunks) == 0 {
		l.chunks = [][]Mark{{m}}
		return
	}
	c := min(l.chunkOf(m), len(l.chunks)-1)
	at, _ := slices.BinarySearchFunc(l.chunks[c], m, Mark.compare)
	chunk := slices.Insert(l.chunks[c], at, m)
	l.chunks[c] = chunk
	if len(chunk) > maxChunk {
		half := slices.Clone(chunk[maxChunk/2:])
		l.chunks[c] = slices.Clip(chunk[:maxChunk/2])
		l.chunks = slices.Insert(l.chunks, c+1, half)
	}
}

// remove removes a mark, which must be in the list.
func (l *list) remove(m Mark) {
	c := l.chunkOf(m)
	at, _ := slices.BinarySearchFunc(l.chunks[c], m, Mark.compare)
	if l.chunks[c] = slices.Delete(l.chunks[c], at, at+1); len(l.chunks[c]) == 0 {
		l.chunks = slices.Delete(l.chunks, c, c+1)
	}
}
