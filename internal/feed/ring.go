package feed

import (
	"sort"
	"sync"
	"time"
)

// ring is the last events of a namespace. What comes in pushes out what is oldest.
type ring struct {
	filling chan struct{} // has something when what is old should be looked at for those who did not

	mu      sync.Mutex
	slots   []*Item
	first   int // of the items in slots
	count   int
	weight  int
	most    int    // weight
	base    uint64 // all events above it, up to head, are here
	head    uint64
	guarded uint64        // everything up to it was looked at by whoever wants it
	swept   chan struct{} // closed when guarded rises, if somebody waits
	ended   error         // why nothing will come any more

	changed chan struct{} // closed at the next change, if somebody waits
	waiters int
	woke    time.Time   // when it was closed last
	waking  *time.Timer // closes it; nil: nobody need be woken
}

// A waiter costs so much of a processor's time when it is woken that all of them together are woken no more often than
// waiters times this. What comes first after a pause wakes them at once.
const perWaiter = 2 * time.Microsecond

// newRing returns a ring that covers a log from behind a sequence on.
func newRing(size, weight int, base uint64) *ring {
	return &ring{slots: make([]*Item, size), most: weight, base: base, head: base, guarded: base, filling: make(chan struct{}, 1)}
}

// room returns nil if an item pushes out nothing that was not looked at, and otherwise what is closed when that may
// be otherwise.
func (r *ring) room(it *Item) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.isFull(it) || r.slots[r.first].Event.Seq <= r.guarded {
		return nil
	}
	signal(r.filling)
	if r.swept == nil {
		r.swept = make(chan struct{})
	}
	return r.swept
}

// isFull reports whether an item pushes out another one.
func (r *ring) isFull(it *Item) bool {
	return r.count > 0 && (r.count == len(r.slots) || r.weight+it.weight() > r.most)
}

// add takes the next event.
func (r *ring) add(it *Item) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if it.Event.Seq <= r.head {
		return began()
	}
	for r.isFull(it) {
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
	if r.count-r.index(r.guarded) > 3*len(r.slots)/4 || r.weight > 3*(r.most/4) && r.at(0).Event.Seq > r.guarded {
		signal(r.filling)
	}
	r.wake()
	return nil
}

// middle returns up to where what is old in the ring reaches: the older half of what was not looked at.
func (r *ring) middle() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := r.index(r.guarded)
	if i == r.count {
		return r.guarded
	}
	return r.at((i + r.count) / 2).Event.Seq
}

// sweptTo says that everything up to a sequence was looked at.
func (r *ring) sweptTo(seq uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.guarded = max(r.guarded, seq)
	if r.swept != nil {
		close(r.swept)
		r.swept = nil
	}
}

// end says that nothing comes any more, and why.
func (r *ring) end(why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended == nil {
		r.ended = why
		r.wakeAll()
	}
}

// wake wakes who waits, now or a little later with others.
func (r *ring) wake() {
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

func (r *ring) wakeAll() {
	if r.waking != nil {
		r.waking.Stop()
		r.waking = nil
	}
	if r.changed != nil {
		close(r.changed)
		r.changed, r.waiters, r.woke = nil, 0, time.Now()
	}
}

// taken is what a ring has for a place in the log.
type taken struct {
	items   []*Item
	covered bool            // the place is not below base: nothing is missing
	changed <-chan struct{} // closed when there is more; only without items
}

// take returns the items behind a place, as many as fit into a slice. An error says why nothing comes any more.
func (r *ring) take(after uint64, into []*Item) (taken, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := taken{covered: after >= r.base, items: into[:0]}
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
	if r.changed == nil {
		r.changed = make(chan struct{})
	}
	r.waiters++
	t.changed = r.changed
	return t, nil
}

// backlog returns how many items are behind a place, and the sequence behind which only so many of them are left; 0 if
// there are not more.
func (r *ring) backlog(place uint64, left int) (n int, last uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n = r.count - r.index(place); n > left {
		last = r.at(r.count - left - 1).Event.Seq
	}
	return n, last
}

// last returns the sequence of the last event.
func (r *ring) last() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.head
}

func (r *ring) at(i int) *Item { return r.slots[(r.first+i)%len(r.slots)] }

// index returns where the first item behind a place is.
func (r *ring) index(after uint64) int {
	return sort.Search(r.count, func(i int) bool { return r.at(i).Event.Seq > after })
}

// from returns behind which sequence the ring has everything.
func (r *ring) from() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.base
}
