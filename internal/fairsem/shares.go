// Package fairsem is a fair semaphore: it divides a number of permits among competing holders.
package fairsem

import (
	"container/list"
	"sync"
)

// greed limits a subscription to this multiple of the permits that stay free.
const greed = 4

// Shares limits the attempts in flight of all runners of the process, and divides them.
//
// The first permit of a subscription is granted whenever one is free. It gets any further one only
// while it holds less than greed times the permits that would stay free: alone it fills four
// fifths, two busy subscriptions get four ninths each, and some permits always stay free for later
// ones, which need not wait for an endpoint that hangs. Others wait in order: a returned permit
// goes to the first that may have it.
type Shares struct {
	mu      sync.Mutex
	free    int
	waiting list.List // of *Share
}

// Share is one subscription's permits. Its calls come from one goroutine, except for give.
type Share struct {
	of    *Shares
	freed chan struct{} // has an element when a permit was granted

	// guarded by of.mu
	held    int           // permits, a granted one included
	granted bool          // a permit was granted while it waited
	turn    *list.Element // nil: it does not wait
}

// New returns this many permits.
func New(bound int) *Shares { return &Shares{free: bound} }

// Join returns a share without permits.
func (s *Shares) Join() *Share { return &Share{of: s, freed: make(chan struct{}, 1)} }

// Freed signals a free permit after Take found none.
func (s *Share) Freed() <-chan struct{} { return s.freed }

// Take takes a permit, and reports whether there is one. If not, Freed signals when there is; then
// call Take or Pass.
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

// Pass says that no permit is needed at the moment: a granted one goes to the next.
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

// Give returns a permit.
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

// grant gives free permits to shares that wait and may have them. A share that is passed over holds
// permits already, so there are at most as many of these as permits.
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
