package supervise

import (
	"context"
	"maps"
	"slices"
	"sync"
)

// Set runs the workers of an engine, one for each key. A worker begins when its predecessor has
// ended. W is the engine's view of a worker. The zero Set is empty and ready for use. It is safe
// for concurrent use.
type Set[W any] struct {
	all sync.WaitGroup

	mu      sync.Mutex
	serving map[string]*worker[W]
	leaving map[string]*worker[W] // the last one of each key that was told to end, until it has ended
}

type worker[W any] struct {
	is    W
	stop  context.CancelFunc
	ended chan struct{}
	over  bool // it has ended
}

// Start starts a worker in place of the key's current one, which is told to end. create returns the
// worker and its function, which runs once the predecessor has ended; its context ends with ctx, or
// when the worker is told to end.
func (s *Set[W]) Start(ctx context.Context, key string, create func(context.Context) (is W, run func())) {
	ctx, stop := context.WithCancel(ctx)
	is, run := create(ctx)
	w := &worker[W]{is: is, stop: stop, ended: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.leave(key)
	if s.serving == nil {
		s.serving, s.leaving = map[string]*worker[W]{}, map[string]*worker[W]{}
	}
	s.serving[key] = w
	s.all.Go(func() {
		defer s.left(key, w)
		defer stop()
		if before != nil {
			<-before.ended
		}
		run()
	})
}

// Stop tells a key's worker to end. The returned channel is closed when it has ended; it is nil if
// there is no worker.
func (s *Set[W]) Stop(key string) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.leave(key); w != nil {
		return w.ended
	}
	return nil
}

// leave tells a key's worker to end. It returns the key's last worker that was told to end, nil if
// there is none. The caller holds the lock.
func (s *Set[W]) leave(key string) *worker[W] {
	w := s.serving[key]
	if w == nil {
		return s.leaving[key]
	}
	delete(s.serving, key)
	w.stop()
	if !w.over {
		s.leaving[key] = w
	}
	return w
}

// left records that a worker has ended. A worker that ended by itself keeps its key until it is
// told to end.
func (s *Set[W]) left(key string, w *worker[W]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.over = true
	close(w.ended)
	if s.leaving[key] == w {
		delete(s.leaving, key)
	}
}

// Get returns a key's worker that was not told to end, and whether there is one.
func (s *Set[W]) Get(key string) (is W, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w, ok := s.serving[key]
	if ok {
		is = w.is
	}
	return is, ok
}

// All returns the workers that were not told to end, by key.
func (s *Set[W]) All() map[string]W {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make(map[string]W, len(s.serving))
	for key, w := range s.serving {
		all[key] = w.is
	}
	return all
}

// Settled returns a channel that is closed when all workers that were told to end have ended.
func (s *Set[W]) Settled() <-chan struct{} {
	s.mu.Lock()
	leaving := slices.Collect(maps.Values(s.leaving))
	s.mu.Unlock()
	settled := make(chan struct{})
	s.all.Go(func() {
		defer close(settled)
		for _, w := range leaving {
			<-w.ended
		}
	})
	return settled
}

// Go runs a function in a goroutine that Wait waits for.
func (s *Set[W]) Go(f func()) { s.all.Go(f) }

// Wait returns when all workers and functions of Go have ended. No worker may be started after the
// call.
func (s *Set[W]) Wait() { s.all.Wait() }
