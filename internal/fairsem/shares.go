// Package fairsem is a fair semaphore: it divides a number of permits among competing holders.
package fairsem

import (
	"container/list"
	"sync"
)

// greed is how many times what stays free a subscription may hold.
const greed = 4

// Shares bounds the attempts under way of all runners of the process, and gives each its part.
//
// The first place of a subscription is given whenever there is one. Any further one it gets
// only while it holds less than greed times what would stay free: alone it fills four fifths, two that
// want everything get four ninths each, and there is always something free for those that come
// later, who need not wait for an endpoint that hangs. Who gets none waits in turn: a place that
// is given back goes to the first of those that may have it.
type Shares struct {
	mu      sync.Mutex
	free    int
	waiting list.List // of *Share
}

// Share is what one subscription holds of the places. Its calls come from one goroutine, but for give.
type Share struct {
	of    *Shares
	freed chan struct{} // has an element when a place was granted

	// guarded by of.mu
	held    int           // places, a granted one included
	granted bool          // one was given to it while it waited
	turn    *list.Element // nil: it does not wait
}

// New returns so many places.
func New(bound int) *Shares { return &Shares{free: bound} }

// Join returns a share that holds nothing.
func (s *Shares) Join() *Share { return &Share{of: s, freed: make(chan struct{}, 1)} }

// Freed tells, after Take found no place, that there is one.
func (s *Share) Freed() <-chan struct{} { return s.freed }

// Take takes a place, and reports whether there is one. If not, Freed tells when there is, and
// it is to be taken then, or passed.
func (s *Share) Take() bool {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	switch {
	case s.granted:
		s.granted = false
		return true
	case s.turn != nil:
		return false
	case s.may():
		s.hold()
		return true
	}
	s.turn = s.of.waiting.PushBack(s)
	return false
}

// Pass says that no place is wanted at the moment: one that was granted goes to the next.
func (s *Share) Pass() {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	if s.turn != nil {
		s.leave()
	}
	if s.granted {
		s.granted = false
		s.release()
	}
}

// Give gives a place back.
func (s *Share) Give() {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	s.release()
}

func (s *Share) may() bool {
	return s.of.free > 0 && (s.held == 0 || s.held < greed*(s.of.free-1))
}

func (s *Share) hold() {
	s.held++
	s.of.free--
}

func (s *Share) leave() {
	s.of.waiting.Remove(s.turn)
	s.turn = nil
}

func (s *Share) release() {
	s.held--
	s.of.free++
	s.of.grant()
}

// grant gives free places to those that wait and may have them. Whoever is passed over holds
// places already, so that there are no more of those than there are places.
func (s *Shares) grant() {
	for e := s.waiting.Front(); e != nil && s.free > 0; {
		next := e.Next()
		if w, ok := e.Value.(*Share); ok && w.may() {
			w.leave()
			w.hold()
			w.granted = true
			select {
			case w.freed <- struct{}{}:
			default: // it has not looked since the last one
			}
		}
		e = next
	}
}
