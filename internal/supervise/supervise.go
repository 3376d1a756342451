// Package supervise has the parts that engines share: the run of an engine on the work that a replica
// owns, and pauses between tries.
package supervise

import (
	"context"
	"sync"
	"time"

	"github.com/sluice-io/sluice/internal/shutdown"
)

// Ownership reports changes of the work that this replica owns.
type Ownership interface {
	// Run calls changed whenever that may have changed, until ctx is done. The returned channel is
	// closed when none of the work that is no longer owned is in flight.
	Run(ctx context.Context, changed func() <-chan struct{}) error
}

// Engine is the work of an engine. The context of its functions ends when one of them does.
type Engine struct {
	// Watches report the work that there is, until their context ends.
	Watches []func(context.Context) error
	// Changed is called when ownership may have changed, as by Ownership.
	Changed func(context.Context) <-chan struct{}
	// Serve does the work until its context ends, and returns when nothing is in flight.
	Serve func(context.Context)
}

// Run runs an engine until ctx is done, which is not an error, or one of its parts or the ownership
// ends. Ownership outlasts the work: no other replica does the same before.
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

// Pause is the pause between tries. It doubles with each.
type Pause struct {
	First, Most time.Duration

	next time.Duration
}

// Wait waits for the pause, and reports whether ctx is not done.
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

// Reset makes the next pause the first again.
func (p *Pause) Reset() { p.next = 0 }
