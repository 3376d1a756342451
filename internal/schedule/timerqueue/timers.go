// Package timerqueue is a queue of many timers by key. It calls one function with each key at the
// key's time.
//
// It keeps keys in memory only. It calls the keys of one lane one after the other, in the order of
// their times, postponed ones first. It never calls a key twice concurrently. A call may be
// redundant, so the callee checks the stored state.
package timerqueue

import (
	"cmp"
	"container/heap"
	"context"
	"hash/fnv"
	"slices"
	"sync"
	"time"
)

const (
	shards             = 64          // so many goroutines call lanes concurrently
	clockCheckInterval = time.Second // how soon a change of the wall clock is noticed
)

// Entry is a key with its time.
type Entry struct {
	Key   string
	Lane  string // the entries of a lane are called in order
	Group string // for Count
	At    time.Time
	Order uint64    // at equal times the lower is first
	Next  time.Time // when it is called, if that is later than At: the entry is postponed
}

// Again says when to call a key again.
type Again struct {
	At   time.Time // zero: only after another Set
	Hold bool      // later entries of its lane wait for it
}

// Timers calls a function for keys at their times, while Run runs. It is safe for concurrent use.
type Timers struct {
	fire func(ctx context.Context, key string) Again

	mu      sync.Mutex
	byKey   map[string]*entry
	counts  map[string]int
	shards  [shards]*shard
	recalls int // the number of calls of Recall
}

// entry is an Entry in its shard.
type entry struct {
	Entry

	shard  *shard
	index  int       // in the heap; -1: not in it
	next   time.Time // when it is called: At, unless postponed
	firing bool
	taken  int  // recalls when it was taken, while firing
	waits  bool // it was put off uncalled, because its lane was held
	set    bool // next is valid
	gone   bool // Remove was called during its call
}

type shard struct {
	due  dues
	late map[string]map[*entry]struct{} // postponed entries, by lane
	held map[string]hold                // holders of lanes, by lane
	wake chan struct{}
}

// hold is a postponed entry for which later entries of its lane wait.
type hold struct {
	by *entry
	at time.Time // when its call returned that
}

// covers reports whether an entry waits for the holder without another call of it: the entry was
// due at the last call, or waits already.
func (h hold) covers(e *entry) bool {
	return h.by.before(e) && (e.waits || !e.next.After(h.at))
}

// New returns timers. While Run runs, they call fire for every due key; fire returns when to call
// it for the key again.
func New(fire func(ctx context.Context, key string) Again) *Timers {
	t := &Timers{fire: fire, byKey: map[string]*entry{}, counts: map[string]int{}}
	for i := range t.shards {
		t.shards[i] = &shard{late: map[string]map[*entry]struct{}{}, held: map[string]hold{}, wake: make(chan struct{}, 1)}
	}
	return t
}

// Set schedules a key, and replaces its entry. It changes nothing and returns false if the existing
// entry has a higher order, because then this one is outdated.
func (t *Timers) Set(one Entry) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.byKey[one.Key]
	if e == nil {
		e = &entry{shard: t.shards[hash(one.Lane)%shards], index: -1, Entry: one}
		t.byKey[one.Key] = e
		t.counts[one.Group]++
	}
	if one.Order < e.Order {
		return false
	}
	e.At, e.Order, e.next, e.set, e.gone = one.At, one.Order, one.At, true, false
	e.inTime()
	if one.Next.After(one.At) {
		e.next = one.Next
		e.putOff()
	}
	if !e.firing {
		t.queue(e)
	}
	return true
}

// Remove removes a key.
func (t *Timers) Remove(key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.byKey[key]
	if e == nil {
		return
	}
	e.set, e.gone = false, true
	e.inTime()
	if e.index >= 0 {
		heap.Remove(&e.shard.due, e.index)
	}
	t.forget(e)
}

// Recall makes all postponed keys due at their original times, and none later than it was. Call it
// after a change of the wall clock, so that a callee that postponed them by the old clock decides
// again. A key that is postponed by a call in progress is called again, too.
func (t *Timers) Recall() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.recalls++
	for _, s := range t.shards {
		for _, lane := range s.late {
			for e := range lane {
				if e.next = earlier(e.At, e.next); e.index >= 0 {
					t.queue(e)
				}
			}
		}
	}
}

// Count returns the number of keys of a group.
func (t *Timers) Count(group string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.counts[group]
}

// Run calls due keys until ctx is done, and returns after the last call.
func (t *Timers) Run(ctx context.Context) error {
	var all sync.WaitGroup
	for _, s := range t.shards {
		all.Go(func() { t.run(ctx, s) })
	}
	all.Wait()
	return nil
}

func (t *Timers) run(ctx context.Context, s *shard) {
	timer := time.NewTimer(clockCheckInterval)
	defer timer.Stop()
	for ctx.Err() == nil {
		due, wait := t.next(s)
		t.call(ctx, due)
		if len(due) > 0 {
			continue
		}
		var later <-chan time.Time
		if wait > 0 {
			timer.Reset(wait)
			later = timer.C
		}
		select {
		case <-ctx.Done():
		case <-s.wake:
		case <-later:
		}
	}
}

// call calls entries of a lane until one holds the lane. The rest wait for it.
func (t *Timers) call(ctx context.Context, due []*entry) {
	for i, e := range due {
		again := t.fire(ctx, e.Key)
		t.fired(e, again)
		if !again.Hold {
			continue
		}
		for _, later := range due[i+1:] {
			t.fired(later, Again{At: again.At})
		}
		return
	}
}

// next takes the first due entry, preceded by earlier postponed entries of its lane. If the lane is
// held, it takes the holder in place of that entry, once for each entry that becomes due. If none
// is due, it returns the time until the next look; 0: wait until there is an entry.
func (t *Timers) next(s *shard) ([]*entry, time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(s.due) > 0 {
		first := s.due[0]
		if wait := time.Until(first.next.Round(0)); wait > 0 {
			return nil, min(wait, clockCheckInterval)
		}
		h, held := s.held[first.Lane]
		switch {
		case held && h.covers(first):
			first.next, first.waits = h.by.next, true
			first.putOff()
			heap.Fix(&s.due, first.index)
		case held && h.by.before(first):
			return t.take(h.by), 0
		default:
			return t.take(first), 0
		}
	}
	return nil, 0
}

// take takes an entry, preceded by earlier postponed entries of its lane.
func (t *Timers) take(last *entry) []*entry {
	s, due := last.shard, []*entry{last}
	for e := range s.late[last.Lane] {
		if e.before(last) {
			due = append(due, e)
		}
	}
	slices.SortFunc(due, func(a, b *entry) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Order, b.Order)) })
	for _, e := range due {
		heap.Remove(&s.due, e.index)
		e.inTime()
		e.firing, e.set, e.taken = true, false, t.recalls
	}
	return due
}

// fired records when to call an entry again. If Set was called during its call, the earlier of the
// two times counts.
func (t *Timers) fired(e *entry, again Again) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e.firing = false
	if e.taken != t.recalls && !again.At.IsZero() {
		again = Again{At: earlier(e.At, again.At)} // it was decided before Recall
	}
	if !again.At.IsZero() && !e.gone && (!e.set || again.At.Before(e.next)) {
		e.next, e.set = again.At, true
		e.putOff()
		if again.Hold {
			e.shard.held[e.Lane] = hold{e, time.Now().Round(0)}
		}
	}
	if e.set {
		t.queue(e)
		return
	}
	t.forget(e)
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// before reports whether the entry comes before another by original time and order.
func (e *entry) before(other *entry) bool {
	return e.At.Before(other.At) || e.At.Equal(other.At) && e.Order < other.Order
}

// putOff registers an entry as postponed.
func (e *entry) putOff() {
	if e.shard.late[e.Lane] == nil {
		e.shard.late[e.Lane] = map[*entry]struct{}{}
	}
	e.shard.late[e.Lane][e] = struct{}{}
}

// inTime undoes putOff.
func (e *entry) inTime() {
	e.waits = false
	if e.shard.held[e.Lane].by == e {
		delete(e.shard.held, e.Lane)
	}
	delete(e.shard.late[e.Lane], e)
	if len(e.shard.late[e.Lane]) == 0 {
		delete(e.shard.late, e.Lane)
	}
}

func (t *Timers) forget(e *entry) {
	if e.firing {
		return
	}
	delete(t.byKey, e.Key)
	if t.counts[e.Group]--; t.counts[e.Group] == 0 {
		delete(t.counts, e.Group)
	}
}

func (t *Timers) queue(e *entry) {
	if e.index >= 0 {
		heap.Fix(&e.shard.due, e.index)
	} else {
		heap.Push(&e.shard.due, e)
	}
	if e.index == 0 {
		select {
		case e.shard.wake <- struct{}{}:
		default: // a wake-up is pending
		}
	}
}

func hash(s string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(s)) // Write of a hash returns no error
	return h.Sum32()
}

// dues is a heap of entries by the time of their next call.
type dues []*entry

// Len is part of heap.Interface.
func (d dues) Len() int { return len(d) }

// Less is part of heap.Interface.
func (d dues) Less(i, j int) bool {
	if c := d[i].next.Compare(d[j].next); c != 0 {
		return c < 0
	}
	return d[i].before(d[j])
}

// Swap is part of heap.Interface.
func (d dues) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].index, d[j].index = i, j
}

// Push is part of heap.Interface.
func (d *dues) Push(x any) {
	if e, ok := x.(*entry); ok {
		e.index = len(*d)
		*d = append(*d, e)
	}
}

// Pop is part of heap.Interface.
func (d *dues) Pop() any {
	last := len(*d) - 1
	e := (*d)[last]
	(*d)[last] = nil
	*d = (*d)[:last]
	e.index = -1
	return e
}
