// Package supervise has the parts that engines share: running an engine on the work that a replica
// owns, and pausing between retries.
package supervise

import (
	"context"
	"sync"
	"time"

	"github.com/sluice-io/sluice/internal/shutdown"
)

// Ownership acquires and gives up the work of this replica, and reports its changes.
type Ownership interface {
	// Run calls changed whenever the owned work may have changed, until ctx is done. The channel
	// that changed returns is closed when none of the work that is no longer owned is in flight.
	Run(ctx context.Context, changed func() <-chan struct{}) error
}

// Engine is the work of an engine. The context of its functions ends when one of them returns.
type Engine struct {
	// Watches keep track of the existing work until their context ends.
	Watches []func(context.Context) error
	// Changed is called when ownership may have changed, as by Ownership.
	Changed func(context.Context) <-chan struct{}
	// Serve does the work until its context ends, and returns when nothing is in flight.
	Serve func(context.Context)
}

// Run runs an engine until ctx is done, or until one of its parts or the ownership ends. It returns
// nil if ctx is done, else the error of the part. Run gives up ownership only after Serve has
// returned, so that no other replica does the same work meanwhile.
func Run(ctx context.Context, owns Ownership, e Engine) error {
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	owning, giveUp := context.WithCancel(shutdown.Lasting(ctx))
	defer giveUp()
	var parts sync.WaitGroup
	for _, watch := range e.Watches {
		parts.Go(func() { cancel(watch(inner)) })
	}
	parts.Go(func() {
		cancel(owns.Run(owning, func() <-chan struct{} { return e.Changed(inner) }))
	})
	e.Serve(inner)
	giveUp()
	parts.Wait()
	if ctx.Err() != nil {
		return nil
	}
	return context.Cause(inner)
}

// Pause is the backoff between retries, from First up to Most. It doubles with each Wait.
type Pause struct {
	First, Most time.Duration

	next time.Duration
}

// Wait waits for the pause. It returns false if ctx is done first.
func (p *Pause) Wait(ctx context.Context) bool {
	p.next = max(p.next, p.First)
	select {
	case <-ctx.Done():
		return false
	case <-time.After(p.next):
	}
	p.next = min(2*p.next, p.Most)
	return true
}

// Reset makes the next pause First again.
func (p *Pause) Reset() { p.next = 0 }
