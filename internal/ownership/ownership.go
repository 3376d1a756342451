// Package ownership gives each engine a view of the leases that this replica holds.
package ownership

import (
	"context"
	"sync"
	"time"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Leases reports the subscriptions that this replica serves.
type Leases interface {
	Run(ctx context.Context, changed func() <-chan struct{}) error
	Owns(key string) bool
	Holding() (then, still func(key string) bool)
}

// Ownership gives each engine a view of the same leases. A lease is handed over once all engines
// have stopped working on its subscription.
type Ownership struct {
	leases Leases

	mu    sync.Mutex
	parts map[*Part]func() <-chan struct{}
}

// New returns a view of leases for engines.
func New(leases Leases) *Ownership {
	return &Ownership{leases: leases, parts: map[*Part]func() <-chan struct{}{}}
}

// Part is the view of one engine.
type Part struct{ of *Ownership }

// Part returns the view of one engine.
func (o *Ownership) Part() *Part { return &Part{o} }

// Owns reports whether this replica serves a subscription, by its lease key (model.LeaseKey).
func (p *Part) Owns(key string) bool { return p.of.leases.Owns(key) }

// Holding returns the leases of this moment: then reports whether a key's is one of them, and still
// whether it has also been held without a break since.
func (p *Part) Holding() (then, still func(key string) bool) { return p.of.leases.Holding() }

// Run calls changed whenever the result of Owns may have changed, until ctx is done.
func (p *Part) Run(ctx context.Context, changed func() <-chan struct{}) error {
	p.of.mu.Lock()
	p.of.parts[p] = changed
	p.of.mu.Unlock()
	changed()
	<-ctx.Done()
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	delete(p.of.parts, p)
	return nil
}

// Run acquires and renews leases until ctx is done, and then gives them back.
func (o *Ownership) Run(ctx context.Context) error {
	var waiting sync.WaitGroup
	defer waiting.Wait()
	return o.leases.Run(ctx, func() <-chan struct{} {
		settled := make(chan struct{})
		all := o.tell()
		waiting.Go(func() {
			for _, one := range all {
				select {
				case <-one:
				case <-ctx.Done():
					return
				}
			}
			close(settled)
		})
		return settled
	})
}

func (o *Ownership) tell() []<-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := make([]<-chan struct{}, 0, len(o.parts))
	for _, changed := range o.parts {
		all = append(all, changed())
	}
	return all
}

// Gate allows content to be sent only while this replica serves the subscription. Engines notice a
// lost lease only at the next renewal. Until then, a machine that was suspended would otherwise
// send the same content as its successor.
type Gate struct {
	Of interface {
		Decide(sub *sluice.Subscription, ev *sluice.Event, now time.Time) model.Decision
	}
	Owns *Part
}

// Decide decides whether an event may be sent.
func (g Gate) Decide(sub *sluice.Subscription, ev *sluice.Event, now time.Time) model.Decision {
	if !g.Owns.Owns(model.LeaseKey(sub)) {
		return model.Undecided
	}
	return g.Of.Decide(sub, ev, now)
}
