package streamsub

import (
	"container/heap"
	"context"
	"sync"
	"time"
)

// clock reports each key when it is due. It is safe for concurrent use.
type clock struct {
	now  func() time.Time
	wake chan struct{}

	mu  sync.Mutex
	due map[string]time.Time // the valid time of each key; all may have superseded ones
	all alarms
}

type alarm struct {
	at  time.Time
	key string
}

type alarms []alarm

func (a alarms) Len() int           { return len(a) }
func (a alarms) Less(i, j int) bool { return a[i].at.Before(a[j].at) }
func (a alarms) Swap(i, j int)      { a[i], a[j] = a[j], a[i] }

// Push is heap's.
func (a *alarms) Push(x any) {
	if one, ok := x.(alarm); ok {
		*a = append(*a, one)
	}
}

// Pop is heap's.
func (a *alarms) Pop() any {
	last := (*a)[len(*a)-1]
	*a = (*a)[:len(*a)-1]
	return last
}

func newClock(now func() time.Time) *clock {
	return &clock{now: now, wake: make(chan struct{}, 1), due: map[string]time.Time{}}
}

// set sets a key's due time, in place of an earlier one. The zero time unschedules the key. The
// cost is O(log n). Superseded alarms stay in the heap until they come first.
func (c *clock) set(key string, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch before, ok := c.due[key]; {
	case at.IsZero():
		delete(c.due, key)
		return
	case ok && before.Equal(at):
		return
	}
	c.due[key] = at
	heap.Push(&c.all, alarm{at, key})
	if c.all[0].key == key {
		select {
		case c.wake <- struct{}{}:
		default: // a wake-up is pending
		}
	}
}

// next removes and returns the keys that are due, and returns when the next one is due; zero: no
// key is scheduled.
func (c *clock) next() (due []string, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.all) > 0 {
		first := c.all[0]
		if !c.due[first.key].Equal(first.at) { // superseded
			heap.Pop(&c.all)
			continue
		}
		if first.at.After(c.now()) {
			return due, first.at
		}
		heap.Pop(&c.all)
		delete(c.due, first.key)
		due = append(due, first.key)
	}
	return due, time.Time{}
}

// run calls tell for each due key until ctx is done. tell must not block: other keys wait.
func (c *clock) run(ctx context.Context, tell func(key string)) {
	for {
		due, at := c.next()
		for _, key := range due {
			tell(key)
		}
		var timer <-chan time.Time
		if !at.IsZero() {
			timer = time.After(max(at.Sub(c.now()), 0))
		}
		select {
		case <-ctx.Done():
			return
		case <-c.wake:
		case <-timer:
		}
	}
}
