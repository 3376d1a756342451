package faulttest

import (
	"fmt"
	"slices"
	"sync"
)

// Arrivals records the events that reach a receiver, by path. It is safe for concurrent use.
type Arrivals struct {
	mu    sync.Mutex
	tries map[string]int
	taken map[string]int      // number of 2xx answers, by event
	order map[string][]string // by path: event ids in the order of their first attempt
}

// Arrived is the comparison of received and sent events.
type Arrived struct {
	Events   int
	Lost     int
	Twice    int    // number of repeated acceptances
	Disorder string // the first path whose first attempts were out of order
}

// NewArrivals returns empty arrivals.
func NewArrivals() *Arrivals {
	return &Arrivals{tries: map[string]int{}, taken: map[string]int{}, order: map[string][]string{}}
}

// Try records an attempt at an event and returns the number of the attempt.
func (a *Arrivals) Try(path, id string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.tries[id]++
	if a.tries[id] == 1 {
		a.order[path] = append(a.order[path], id)
	}
	return a.tries[id]
}

// Take records that the receiver has accepted an event.
func (a *Arrivals) Take(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.taken[id]++
}

// Taken returns the number of accepted events.
func (a *Arrivals) Taken() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.taken)
}

// Tries returns the number of attempts.
func (a *Arrivals) Tries() (n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, tries := range a.tries {
		n += tries
	}
	return n
}

// Compare compares the arrivals with the ids sent on each path, in order. Events that were not sent
// are counted only as a disorder of their path. Each id is sent once.
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

// isOrdered reports whether got is a subsequence of want.
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
