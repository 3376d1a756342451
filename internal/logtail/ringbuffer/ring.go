// Package ringbuffer is a buffer of the last elements of a log for many readers, each at its own pace.
package ringbuffer

import (
	"math"
	"sort"
	"sync"
	"time"
)

// Of has the operations on elements.
type Of[T any] struct {
	Seq    func(T) uint64 // its sequence in the log
	Weight func(T) int    // its approximate size in bytes
}

// Ring holds the last elements of a log. New elements evict the oldest. It is safe for concurrent
// use.
type Ring[T any] struct {
	of      Of[T]
	filling chan struct{}

	mu      sync.Mutex
	slots   []T
	first   int // index of the oldest element in slots
	count   int
	weight  int
	most    int    // maximum of weight
	strict  bool   // most holds even for a single element
	base    uint64 // all events behind it, up to head, are in the ring
	head    uint64
	guarded uint64        // every reader has seen everything up to it
	swept   chan struct{} // closed when guarded rises, if a caller waits
	ended   error         // why no more elements will come

	changed chan struct{} // closed at the next change, if a caller waits
	waiters int
	woke    time.Time   // when changed was last closed
	waking  *time.Timer // closes changed; nil: no wake-up is pending
}

// perWaiter limits the processor time for waking waiters: between two wake-ups is at least this
// time for each waiter. The first element after a pause wakes them immediately.
const perWaiter = 2 * time.Microsecond

// New returns a ring of at most size elements and weight bytes, which covers a log from behind the
// sequence base on.
func New[T any](of Of[T], size, weight int, base uint64) *Ring[T] {
	return &Ring[T]{of: of, slots: make([]T, size), most: weight, base: base, head: base, guarded: math.MaxUint64, filling: make(chan struct{}, 1)}
}

// Guard makes Room protect the elements that not every reader has seen; SweptTo reports those that
// all have. Call it while the ring is empty.
func (r *Ring[T]) Guard() { r.guarded = r.base }

// Strict makes the ring evict an element at once that alone exceeds its maximum of bytes. Call it
// while the ring is empty.
func (r *Ring[T]) Strict() { r.strict = true }

// Filling returns a channel that receives a value when the oldest elements should be handed to slow
// readers.
func (r *Ring[T]) Filling() <-chan struct{} { return r.filling }

// Room returns nil if adding the item evicts only elements that every reader has seen; otherwise a
// channel that is closed when space may be available.
func (r *Ring[T]) Room(it T) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.isFull(it) || r.of.Seq(r.at(0)) <= r.guarded {
		return nil
	}
	r.signal()
	if r.swept == nil {
		r.swept = make(chan struct{})
	}
	return r.swept
}

// isFull reports whether an item evicts another one.
func (r *Ring[T]) isFull(it T) bool {
	return r.count > 0 && (r.count == len(r.slots) || r.weight+r.of.Weight(it) > r.most)
}

// Add adds the next element. It returns false if the element is not after the last one: then the
// log was recreated or lost its end.
func (r *Ring[T]) Add(it T) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.of.Seq(it) <= r.head {
		return false
	}
	for r.isFull(it) {
		r.drop()
	}
	r.slots[(r.first+r.count)%len(r.slots)] = it
	r.count++
	r.weight += r.of.Weight(it)
	r.head = r.of.Seq(it)
	if r.strict {
		r.limit()
	}
	if r.count-r.index(r.guarded) > 3*len(r.slots)/4 || r.weight > 3*(r.most/4) && r.of.Seq(r.at(0)) > r.guarded {
		r.signal()
	}
	r.wake()
	return true
}

// drop evicts the oldest element.
func (r *Ring[T]) drop() {
	oldest := r.slots[r.first]
	var none T
	r.slots[r.first] = none
	r.first = (r.first + 1) % len(r.slots)
	r.count--
	r.weight -= r.of.Weight(oldest)
	r.base = r.of.Seq(oldest)
}

// Clear evicts all elements, also those that not every reader has seen.
func (r *Ring[T]) Clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.count > 0 {
		r.drop()
	}
}

// Limit changes the ring's maximum of bytes. Excess elements are evicted as soon as every reader
// has seen them; one element stays, unless the ring is strict.
func (r *Ring[T]) Limit(weight int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.most = weight
	r.limit()
}

// limit evicts excess elements that every reader has seen, and signals Filling for the rest.
func (r *Ring[T]) limit() {
	for (r.count > 1 || r.strict && r.count > 0) && r.weight > r.most {
		if r.of.Seq(r.at(0)) > r.guarded {
			r.signal()
			return
		}
		r.drop()
	}
}

// Weight returns the approximate size of the elements in bytes.
func (r *Ring[T]) Weight() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.weight
}

// IsPressed reports whether the elements that not every reader has seen leave little room for new
// ones.
func (r *Ring[T]) IsPressed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.count-r.index(r.guarded) > 7*len(r.slots)/8 || r.weight > 7*r.most/8 && r.of.Seq(r.at(0)) > r.guarded
}

// Middle returns the sequence in the middle of the elements that not every reader has seen.
func (r *Ring[T]) Middle() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := r.index(r.guarded)
	if i == r.count {
		return r.guarded
	}
	return r.of.Seq(r.at((i + r.count) / 2))
}

// SweptTo says that every reader has seen everything up to a sequence.
func (r *Ring[T]) SweptTo(seq uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.guarded = max(r.guarded, seq)
	r.limit()
	if r.swept != nil {
		close(r.swept)
		r.swept = nil
	}
}

// End ends the ring: Take returns the reason once it has no more elements. The first call counts.
func (r *Ring[T]) End(why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended == nil {
		r.ended = why
		r.wakeAll()
	}
}

// wake wakes the waiters, now or a little later with others.
func (r *Ring[T]) wake() {
	if r.changed == nil || r.waking != nil {
		return
	}
	now := time.Now()
	wait := time.Duration(r.waiters)*perWaiter - now.Sub(r.woke)
	if wait <= 0 {
		r.wakeAll()
		return
	}
	r.waking = time.AfterFunc(wait, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.wakeAll()
	})
}

func (r *Ring[T]) wakeAll() {
	if r.waking != nil {
		r.waking.Stop()
		r.waking = nil
	}
	if r.changed != nil {
		close(r.changed)
		r.changed, r.waiters, r.woke = nil, 0, time.Now()
	}
}

// Taken is the result of Take.
type Taken[T any] struct {
	Items   []T
	Covered bool            // the ring reaches back to the place: nothing is missing
	Changed <-chan struct{} // closed when there is more; only without items
}

// Take returns the items behind a place, as many as fit into the slice. It returns the reason given
// to End when the ring has ended and nothing is left.
func (r *Ring[T]) Take(after uint64, into []T) (Taken[T], error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := Taken[T]{Covered: after >= r.base, Items: into[:0]}
	if t.Covered {
		for i := r.index(after); i < r.count && len(t.Items) < cap(into); i++ {
			t.Items = append(t.Items, r.at(i))
		}
	}
	if len(t.Items) > 0 || !t.Covered {
		return t, nil
	}
	if r.ended != nil {
		return t, r.ended
	}
	if r.changed == nil {
		r.changed = make(chan struct{})
	}
	r.waiters++
	t.Changed = r.changed
	return t, nil
}

// Backlog returns the number n of items behind a place. If n exceeds left, last is the sequence
// behind which only left of them remain; otherwise it is 0.
func (r *Ring[T]) Backlog(place uint64, left int) (n int, last uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n = r.count - r.index(place); n > left {
		last = r.of.Seq(r.at(r.count - left - 1))
	}
	return n, last
}

// Last returns the sequence of the last element that was added, or the base given to New.
func (r *Ring[T]) Last() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.head
}

func (r *Ring[T]) at(i int) T { return r.slots[(r.first+i)%len(r.slots)] }

// index returns the index of the first item behind a place.
func (r *Ring[T]) index(after uint64) int {
	return sort.Search(r.count, func(i int) bool { return r.of.Seq(r.at(i)) > after })
}

// From returns the sequence behind which the ring is complete.
func (r *Ring[T]) From() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.base
}

// Mean returns the approximate mean size of an item in bytes, at least one.
func (r *Ring[T]) Mean() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return uint64(max(1, r.weight/max(1, r.count)))
}

func (r *Ring[T]) signal() {
	select {
	case r.filling <- struct{}{}:
	default: // a signal is pending
	}
}
