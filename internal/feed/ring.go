package feed

import (
	"sort"
	"sync"
)

// ring is the last events of a namespace. What comes in pushes out what is oldest; nobody waits.
type ring struct {
	mu      sync.Mutex
	slots   []*Item
	first   int // of the items in slots
	count   int
	weight  int
	most    int    // weight
	base    uint64 // all events above it, up to head, are here
	head    uint64
	changed chan struct{} // closed at the next change, if somebody waits
	ended   error         // why nothing will come any more
}

// newRing returns a ring that covers a log from behind a sequence on.
func newRing(size, weight int, base uint64) *ring {
	return &ring{slots: make([]*Item, size), most: weight, base: base, head: base}
}

// add takes the next event.
func (r *ring) add(it *Item) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if it.Event.Seq <= r.head {
		return began()
	}
	for r.count > 0 && (r.count == len(r.slots) || r.weight+it.weight() > r.most) {
		oldest := r.slots[r.first]
		r.slots[r.first] = nil
		r.first = (r.first + 1) % len(r.slots)
		r.count--
		r.weight -= oldest.weight()
		r.base = oldest.Event.Seq
	}
	r.slots[(r.first+r.count)%len(r.slots)] = it
	r.count++
	r.weight += it.weight()
	r.head = it.Event.Seq
	r.wake()
	return nil
}

// end says that nothing comes any more, and why.
func (r *ring) end(why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended == nil {
		r.ended = why
		r.wake()
	}
}

func (r *ring) wake() {
	if r.changed != nil {
		close(r.changed)
		r.changed = nil
	}
}

// taken is what a ring has for a place in the log.
type taken struct {
	items   []*Item
	base    uint64
	head    uint64
	covered bool            // the place is not below base: nothing is missing
	changed <-chan struct{} // closed when there is more; only without items
}

// take returns the items behind a place, as many as fit into a slice. An error says why nothing comes any more.
func (r *ring) take(after uint64, into []*Item) (taken, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := taken{base: r.base, head: r.head, covered: after >= r.base, items: into[:0]}
	if t.covered {
		for i := r.index(after); i < r.count && len(t.items) < cap(into); i++ {
			t.items = append(t.items, r.at(i))
		}
	}
	if len(t.items) > 0 || !t.covered {
		return t, nil
	}
	if r.ended != nil {
		return t, r.ended
	}
	t.changed = r.waiting()
	return t, nil
}

// backlog returns how many items are behind a place, and what is closed when there are more.
func (r *ring) backlog(after uint64) (int, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.count - r.index(after), r.waiting()
}

// size returns how many items there may be.
func (r *ring) size() int { return len(r.slots) }

// last returns the sequence of the last event.
func (r *ring) last() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.head
}

func (r *ring) waiting() <-chan struct{} {
	if r.changed == nil {
		r.changed = make(chan struct{})
	}
	return r.changed
}

func (r *ring) at(i int) *Item { return r.slots[(r.first+i)%len(r.slots)] }

// index returns where the first item behind a place is.
func (r *ring) index(after uint64) int {
	return sort.Search(r.count, func(i int) bool { return r.at(i).Event.Seq > after })
}

// covers reports whether all events behind a place are here, or will come here.
func (r *ring) covers(place uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return place >= r.base
}
