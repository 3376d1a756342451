package faulttest

import (
	"fmt"
	"slices"
	"sync"
)

// Arrivals is what arrived where events are sent, by path.
type Arrivals struct {
	mu    sync.Mutex
	tries map[string]int
	taken map[string]int      // answers 2xx, by event
	order map[string][]string // ids in the order of their first attempt, by path
}

// Arrived is what arrived, compared with what was sent.
type Arrived struct {
	Events   int
	Lost     int
	Twice    int    // how often an event was taken more than once
	Disorder string // the first path whose first attempts were out of order
}

// NewArrivals returns arrivals of which there are none yet.
func NewArrivals() *Arrivals {
	return &Arrivals{tries: map[string]int{}, taken: map[string]int{}, order: map[string][]string{}}
}

// Try enters an attempt of an event and returns the how manieth it is.
func (a *Arrivals) Try(path, id string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.tries[id]++
	if a.tries[id] == 1 {
		a.order[path] = append(a.order[path], id)
	}
	return a.tries[id]
}

// Take enters that an event was taken.
func (a *Arrivals) Take(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.taken[id]++
}

// Taken returns how many events were taken.
func (a *Arrivals) Taken() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.taken)
}

// Tries returns how many attempts there were.
func (a *Arrivals) Tries() (n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, tries := range a.tries {
		n += tries
	}
	return n
}

// Compare compares what arrived with the ids that were sent on each path, in their order.
func (a *Arrivals) Compare(sent map[string][]string) (r Arrived) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for path, ids := range sent {
		r.Events += len(ids)
		for _, id := range ids {
			if a.taken[id] == 0 {
				r.Lost++
			}
			r.Twice += max(0, a.taken[id]-1)
		}
		if got := a.order[path]; r.Disorder == "" && !isOrdered(got, ids) {
			r.Disorder = fmt.Sprintf("%s: %v", path, got)
		}
	}
	return r
}

// isOrdered reports whether got is some of want, in its order.
func isOrdered(got, want []string) bool {
	for _, id := range got {
		i := slices.Index(want, id)
		if i < 0 {
			return false
		}
		want = want[i+1:]
	}
	return true
}
