// Package fairsem implements a fair semaphore, which divides a number of permits among competing
// holders.
package fairsem

import (
	"container/list"
	"sync"
)

// greed limits a subscription to this multiple of the permits that stay free.
const greed = 4

// Shares limits the attempts in flight of all runners of the process, and divides them.
//
// The first permit of a subscription is granted whenever one is free. It gets a further one only
// while it holds less than greed times the permits that would stay free. So one busy subscription
// gets four fifths of the permits, and two get four ninths each. Some permits always stay free for
// later subscriptions, which need not wait for an endpoint that hangs. Other requests wait in
// order: a returned permit goes to the first share that may have it.
type Shares struct {
	mu      sync.Mutex
	free    int
	waiting list.List // of *Share
}

// Share holds the permits of one subscription. Its methods must be called from one goroutine,
// except for Give.
type Share struct {
	of    *Shares
	freed chan struct{} // has an element when a permit was granted

	// guarded by of.mu
	held    int           // permits, including a granted one
	granted bool          // a permit was granted while it waited
	turn    *list.Element // nil: not waiting
}

// New returns a semaphore with bound permits.
func New(bound int) *Shares { return &Shares{free: bound} }

// Join returns a share without permits.
func (s *Shares) Join() *Share { return &Share{of: s, freed: make(chan struct{}, 1)} }

// Freed signals a free permit after Take found none.
func (s *Share) Freed() <-chan struct{} { return s.freed }

// Take takes a permit, and reports whether there was one. If there was none, Freed signals when
// there is; the caller must then call Take or Pass.
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

// Pass gives up waiting. A permit that was already granted goes to the next share.
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

// grant gives free permits to waiting shares that may have them. It skips only shares that already
// hold permits, so it skips at most as many as there are permits.
func (s *Shares) grant() {
	for e := s.waiting.Front(); e != nil && s.free > 0; {
		next := e.Next()
		if w, ok := e.Value.(*Share); ok && w.may() {
			w.leave()
			w.hold()
			w.granted = true
			select {
			case w.freed <- struct{}{}:
			default: // the last signal was not received yet
			}
		}
		e = next
	}
}
