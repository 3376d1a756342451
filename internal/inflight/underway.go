// Package inflight tracks in-flight requests so that they can be cancelled when access is revoked.
//
// A request is registered before the gate is asked about it. So of a concurrent revocation and
// attempt, either the gate sees the revocation or Cut sees the attempt.
package inflight

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// ErrCut is the cause with which the context of what was cut off is done.
var ErrCut = errors.New("cancelled: access may have been revoked")

// Set is what is under way. The zero value is ready.
type Set[T any] struct {
	mu  sync.Mutex
	all map[*act[T]]struct{}
}

type act[T any] struct {
	about T
	cut   context.CancelCauseFunc
	over  chan struct{}
}

// Enter makes known that something is under way, with what it is about. It returns the context to do it with, and leave, which
// is to be called once, when nothing of it can leave any more: that ends the context too.
func (s *Set[T]) Enter(ctx context.Context, about T) (_ context.Context, leave func()) {
	ctx, cut := context.WithCancelCause(ctx)
	a := &act[T]{about: about, cut: cut, over: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[*act[T]]struct{}{}
	}
	s.all[a] = struct{}{}
	return ctx, func() { s.leave(a) }
}

func (s *Set[T]) leave(a *act[T]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, a)
	a.cut(nil)
	close(a.over)
}

// Cut cuts off everything of which which says true, and does not wait for it.
func (s *Set[T]) Cut(which func(about T) bool) Off {
	var off Off
	for _, a := range s.acts() {
		if which(a.about) {
			a.cut(ErrCut)
			off = append(off, a.over)
		}
	}
	return off
}

// acts returns all of it: which may take locks under which others enter.
func (s *Set[T]) acts() []*act[T] {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*act[T], 0, len(s.all))
	for a := range s.all {
		all = append(all, a)
	}
	return all
}

// WasCut reports whether a context is one of something that was cut off.
func WasCut(ctx context.Context) bool { return errors.Is(context.Cause(ctx), ErrCut) }

// Off is what was cut off: for each, what is closed when it has ended.
type Off []<-chan struct{}

// Wait returns when all of it has ended, or with ctx's error.
func (o Off) Wait(ctx context.Context) error {
	for n, over := range o {
		select {
		case <-over:
		case <-ctx.Done():
			return fmt.Errorf("cancelled %d attempts, of which %d may still be in flight: %w", len(o), len(o)-n, ctx.Err())
		}
	}
	return nil
}
