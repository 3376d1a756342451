package watch

import (
	"sort"
	"sync"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// ring is the last events of a namespace. What comes in pushes out what is oldest; nobody waits for those who read.
type ring struct {
	mu      sync.Mutex
	slots   []sluice.Event
	first   int // of the events in slots
	count   int
	weight  int
	most    int    // weight
	base    uint64 // all events above it, up to head, are here
	head    uint64
	changed chan struct{} // closed at the next change, if somebody waits
	ended   error         // why nothing will come any more
}

// eventWeight is about what an event takes besides its data.
const eventWeight = 512

// newRing returns a ring that covers a log from behind a sequence on.
func newRing(size, weight int, base uint64) *ring {
	return &ring{slots: make([]sluice.Event, size), most: weight, base: base, head: base}
}

// add takes the next event.
func (r *ring) add(ev sluice.Event) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if ev.Seq <= r.head {
		return errBegan
	}
	weight := len(ev.Data) + eventWeight
	for r.count > 0 && (r.count == len(r.slots) || r.weight+weight > r.most) {
		oldest := &r.slots[r.first]
		r.base = oldest.Seq
		r.weight -= len(oldest.Data) + eventWeight
		*oldest = sluice.Event{}
		r.first = (r.first + 1) % len(r.slots)
		r.count--
	}
	r.slots[(r.first+r.count)%len(r.slots)] = ev
	r.count++
	r.weight += weight
	r.head = ev.Seq
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
	events  []sluice.Event
	base    uint64
	head    uint64
	covered bool            // the place is not below base: nothing is missing
	changed <-chan struct{} // closed when there is more; only without events
}

// take returns the events behind a place, as many as fit into a slice. An error says why nothing comes any more.
func (r *ring) take(after uint64, into []sluice.Event) (taken, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := taken{base: r.base, head: r.head, covered: after >= r.base, events: into[:0]}
	if t.covered {
		from := sort.Search(r.count, func(i int) bool { return r.at(i).Seq > after })
		for i := from; i < r.count && len(t.events) < cap(into); i++ {
			t.events = append(t.events, *r.at(i))
		}
	}
	if len(t.events) > 0 || !t.covered {
		return t, nil
	}
	if r.ended != nil {
		return t, r.ended
	}
	if r.changed == nil {
		r.changed = make(chan struct{})
	}
	t.changed = r.changed
	return t, nil
}

// last returns the sequence of the last event.
func (r *ring) last() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.head
}

func (r *ring) at(i int) *sluice.Event { return &r.slots[(r.first+i)%len(r.slots)] }
