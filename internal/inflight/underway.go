// Package inflight tracks in-flight requests so that they can be cancelled when access is revoked.
//
// A caller registers a request before it asks the gate about it. So if a revocation and an attempt
// are concurrent, either the gate sees the revocation or Cut sees the attempt.
package inflight

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// ErrCut is the cause of the context of a request that was cut off.
var ErrCut = errors.New("cancelled: access may have been revoked")

// Set holds the requests in flight. The zero value is ready to use.
type Set[T any] struct {
	mu  sync.Mutex
	all map[*act[T]]struct{}
}

type act[T any] struct {
	about T
	cut   context.CancelCauseFunc
	over  chan struct{}
}

// Enter registers a request with its subject, and returns the request's context. The caller must
// call leave once, when nothing of the request can leave the process any more; leave also ends the
// context.
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

// Cut cancels every request for which which returns true. It does not wait for their end.
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

// acts returns all requests, so that Cut can call which without the lock: which may take a lock
// under which others call Enter.
func (s *Set[T]) acts() []*act[T] {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*act[T], 0, len(s.all))
	for a := range s.all {
		all = append(all, a)
	}
	return all
}

// WasCut reports whether a context is that of a request that was cut off.
func WasCut(ctx context.Context) bool { return errors.Is(context.Cause(ctx), ErrCut) }

// Off has a channel for each request that was cut off, which is closed at the end of the request.
type Off []<-chan struct{}

// Wait returns when all of them have ended, or with ctx's error.
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
