package records

import (
	"context"
	"sync"
	"time"
)

// appliedLimit is how long a change waits for this replica to act on it: usually less than a millisecond.
const appliedLimit = time.Second

// Applied is the revision of the subscriptions up to which this replica acts on their changes.
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

// Wait waits until this replica acts on a revision, until ctx ends, or for a second.
func (a *Applied) Wait(ctx context.Context, revision uint64) {
	limit := time.NewTimer(appliedLimit)
	defer limit.Stop()
	for {
		a.mu.Lock()
		done, moved := a.revision >= revision, a.moved
		a.mu.Unlock()
		if done {
			return
		}
		select {
		case <-moved:
		case <-limit.C:
			return
		case <-ctx.Done():
			return
		}
	}
}
