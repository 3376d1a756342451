package records

import (
	"context"
	"sync"
	"time"
)

// appliedLimit is how long a change waits for this replica to act on it: usually less than a millisecond.
const appliedLimit = time.Second

// AwaitApplied returns a function that waits until all engines act on a revision, until ctx ends, or for a
// second.
func AwaitApplied(engines ...*Applied) func(ctx context.Context, revision uint64) {
	return func(ctx context.Context, revision uint64) {
		ctx, cancel := context.WithTimeout(ctx, appliedLimit)
		defer cancel()
		for _, a := range engines {
			a.wait(ctx, revision)
		}
	}
}

// Applied is the revision of the subscriptions up to which an engine acts on their changes.
type Applied struct {
	mu       sync.Mutex
	revision uint64
	moved    chan struct{} // closed and replaced with each change
}

// NewApplied returns that nothing is acted on yet.
func NewApplied() *Applied { return &Applied{moved: make(chan struct{})} }

func (a *Applied) enter(revision uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.revision = max(a.revision, revision)
	close(a.moved)
	a.moved = make(chan struct{})
}

// wait waits until the engine acts on a revision, or ctx ends.
func (a *Applied) wait(ctx context.Context, revision uint64) {
	for {
		a.mu.Lock()
		done, moved := a.revision >= revision, a.moved
		a.mu.Unlock()
		if done {
			return
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return
		}
	}
}
