package records

import (
	"context"
	"sync"
	"time"
)

// appliedLimit is the time for which a change waits until this replica has applied it, which
// usually takes less than a millisecond.
const appliedLimit = time.Second

// AwaitApplied returns a function that waits until all engines have applied a revision, until ctx
// ends, or for a second. It does not say whether they did: the caller's answer may then be ahead of
// this replica.
func AwaitApplied(engines ...*Applied) func(ctx context.Context, revision uint64) {
	return func(ctx context.Context, revision uint64) {
		ctx, cancel := context.WithTimeout(ctx, appliedLimit)
		defer cancel()
		for _, a := range engines {
			a.wait(ctx, revision)
		}
	}
}

// Applied is the revision of the subscriptions up to which an engine has applied their changes. It
// is safe for concurrent use.
type Applied struct {
	mu       sync.Mutex
	revision uint64
	moved    chan struct{} // closed and replaced with each change
}

// NewApplied returns an Applied with revision 0.
func NewApplied() *Applied { return &Applied{moved: make(chan struct{})} }

func (a *Applied) enter(revision uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.revision = max(a.revision, revision)
	close(a.moved)
	a.moved = make(chan struct{})
}

// wait waits until the engine has applied a revision, or ctx ends.
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
