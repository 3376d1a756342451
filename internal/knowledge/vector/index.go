package vector

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
)

// exactUpTo is the largest size at which a search compares all vectors exactly.
const exactUpTo = 4096

// Reasons why a vector is not accepted.
var (
	ErrNotFinite = errors.New("the vector has an element that is no finite number")
	ErrZero      = errors.New("the vector has the length 0, so it has no direction")
)

// ErrDimensions means that a vector has the wrong number of elements for its index.
type ErrDimensions struct{ Is, Want int }

// Error names both numbers.
func (e ErrDimensions) Error() string {
	return fmt.Sprintf("the vector has %d elements, and %d are required", e.Is, e.Want)
}

// Neighbour is a result of a search.
type Neighbour[K any] struct {
	Key        K
	Similarity float64 // cosine, -1 to 1
}

// Index holds vectors with the same number of dimensions, by key. It is safe for concurrent use. A
// vector takes 4 bytes for each dimension, 128 bytes for its sketch, and the memory of its key.
type Index[K comparable] struct {
	dims     int
	rotation rotation
	scratch  sync.Pool

	mu       sync.RWMutex
	slots    map[K]int
	keys     []K
	vectors  slab[float32] // normalised
	sketches []uint64      // sketchWords for each slot
}

// New returns an empty index of vectors with dims dimensions.
func New[K comparable](dims int) *Index[K] {
	return &Index[K]{dims: dims, rotation: newRotation(dims), slots: map[K]int{}, vectors: newSlab[float32](dims)}
}

// Normal returns a vector of length 1 with the direction of v. Errors ErrDimensions, ErrNotFinite,
// ErrZero.
func Normal(v []float32, dims int) ([]float32, error) {
	if len(v) != dims {
		return nil, ErrDimensions{len(v), dims}
	}
	var sum float64
	for _, f := range v {
		sum += float64(f) * float64(f)
	}
	if math.IsNaN(sum) || math.IsInf(sum, 0) {
		return nil, ErrNotFinite
	}
	length := math.Sqrt(sum)
	if length == 0 {
		return nil, ErrZero
	}
	normal := make([]float32, len(v))
	for i, f := range v {
		normal[i] = float32(float64(f) / length)
	}
	return normal, nil
}

// Put sets the vector of a key. Errors: those of Normal.
func (x *Index[K]) Put(key K, v []float32) error {
	normal, err := Normal(v, x.dims)
	if err != nil {
		return err
	}
	sketch := x.rotation.sketch(normal)
	x.mu.Lock()
	defer x.mu.Unlock()
	slot, had := x.slots[key]
	if !had {
		slot = len(x.keys)
		x.slots[key] = slot
		x.keys = append(x.keys, key)
		x.vectors.grow(slot)
		x.sketches = append(x.sketches, sketch[:]...)
	}
	copy(x.vectors.at(slot), normal)
	copy(x.sketches[slot*sketchWords:], sketch[:])
	return nil
}

// Delete removes a key. The vector in the last slot moves into the free slot.
func (x *Index[K]) Delete(key K) {
	x.mu.Lock()
	defer x.mu.Unlock()
	slot, had := x.slots[key]
	if !had {
		return
	}
	last := len(x.keys) - 1
	delete(x.slots, key)
	if slot != last {
		x.keys[slot] = x.keys[last]
		x.slots[x.keys[slot]] = slot
		copy(x.vectors.at(slot), x.vectors.at(last))
		copy(x.sketches[slot*sketchWords:(slot+1)*sketchWords], x.sketches[last*sketchWords:])
	}
	var nothing K
	x.keys[last] = nothing
	x.keys, x.sketches = x.keys[:last], x.sketches[:last*sketchWords]
	x.vectors.shrink(last)
}

// Len returns the number of keys.
func (x *Index[K]) Len() int {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return len(x.keys)
}

// Vector returns the normalised vector of a key; nil if there is none. The result is a copy.
func (x *Index[K]) Vector(key K) []float32 {
	x.mu.RLock()
	defer x.mu.RUnlock()
	slot, had := x.slots[key]
	if !had {
		return nil
	}
	return slices.Clone(x.vectors.at(slot))
}

// Nearest returns up to top keys with the vectors most similar to q, the most similar first. In an
// index of more than exactUpTo vectors it is approximate, and may miss a key. Errors: those of
// Normal. It returns nil for a top of 0 or less. The cost is O(n·dims) up to exactUpTo vectors;
// beyond, it compares n sketches, and the vectors of at least candidatesFor(top) of them. Searches
// run concurrently; writers wait for them.
func (x *Index[K]) Nearest(q []float32, top int) ([]Neighbour[K], error) {
	normal, err := Normal(q, x.dims)
	if err != nil || top <= 0 {
		return nil, err
	}
	x.mu.RLock()
	defer x.mu.RUnlock()
	best := newBest[K](top)
	if len(x.keys) <= exactUpTo {
		for slot := range x.keys {
			best.offer(x.keys[slot], dot(normal, x.vectors.at(slot)))
		}
		return best.sorted(), nil
	}
	sketch := x.rotation.sketch(normal)
	for _, slot := range x.candidates(&sketch, candidatesFor(top)) {
		best.offer(x.keys[slot], dot(normal, x.vectors.at(int(slot))))
	}
	return best.sorted(), nil
}

// Exact is Nearest, but compares all vectors exactly.
func (x *Index[K]) Exact(q []float32, top int) ([]Neighbour[K], error) {
	normal, err := Normal(q, x.dims)
	if err != nil || top <= 0 {
		return nil, err
	}
	x.mu.RLock()
	defer x.mu.RUnlock()
	best := newBest[K](top)
	for slot := range x.keys {
		best.offer(x.keys[slot], dot(normal, x.vectors.at(slot)))
	}
	return best.sorted(), nil
}

// best collects the most similar keys.
type best[K any] struct {
	top int
	all []Neighbour[K] // descending
}

func newBest[K any](top int) *best[K] {
	return &best[K]{top: top, all: make([]Neighbour[K], 0, min(top, exactUpTo)+1)}
}

// offer takes a key if it is among the most similar ones.
func (b *best[K]) offer(key K, similarity float64) {
	if len(b.all) == b.top && similarity <= b.all[len(b.all)-1].Similarity {
		return
	}
	at, _ := slices.BinarySearchFunc(b.all, similarity, func(n Neighbour[K], s float64) int { return cmp.Compare(s, n.Similarity) })
	b.all = slices.Insert(b.all, at, Neighbour[K]{key, similarity})
	if len(b.all) > b.top {
		b.all = b.all[:b.top]
	}
}

func (b *best[K]) sorted() []Neighbour[K] { return b.all }

// dot returns the scalar product of two vectors of the same length. It keeps four independent sums,
// which the processor can compute in parallel.
func dot(a, b []float32) float64 {
	var s0, s1, s2, s3 float32
	b = b[:len(a)]
	i := 0
	for ; i+4 <= len(a); i += 4 {
		x, y := a[i:i+4:i+4], b[i:i+4:i+4]
		s0 += x[0] * y[0]
		s1 += x[1] * y[1]
		s2 += x[2] * y[2]
		s3 += x[3] * y[3]
	}
	for ; i < len(a); i++ {
		s0 += a[i] * b[i]
	}
	return float64(s0+s1) + float64(s2+s3)
}

// slab holds rows of the same width in blocks, so that growing copies nothing, and few rows take
// little memory.
type slab[T any] struct {
	width, rows int // rows of a block
	blocks      [][]T
}

const blockElements = 4096

func newSlab[T any](width int) slab[T] {
	return slab[T]{width: width, rows: max(1, blockElements/width)}
}

func (s *slab[T]) grow(row int) {
	if row/s.rows == len(s.blocks) {
		s.blocks = append(s.blocks, make([]T, s.rows*s.width))
	}
}

func (s *slab[T]) at(row int) []T {
	from := row % s.rows * s.width
	return s.blocks[row/s.rows][from : from+s.width : from+s.width]
}

// shrink frees the blocks that are not needed for a number of rows.
func (s *slab[T]) shrink(rows int) {
	need := (rows + s.rows - 1) / s.rows
	clear(s.blocks[need:])
	s.blocks = s.blocks[:need]
}
