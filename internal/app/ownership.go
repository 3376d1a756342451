package app

import (
	"context"
	"sync"
	"time"

	"github.com/sluice-io/sluice/internal/delivery"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// leases reports the subscriptions that this replica serves.
type leases interface {
	Run(ctx context.Context, changed func() <-chan struct{}) error
	Owns(subscription string) bool
}

// ownership gives each engine a view of the same leases. A lease is handed over once all engines
// have stopped working on its subscription.
type ownership struct {
	leases leases

	mu    sync.Mutex
	parts map[*part]func() <-chan struct{}
}

// part is the view of one engine.
type part struct{ of *ownership }

func (o *ownership) part() *part { return &part{o} }

// Owns reports whether this replica serves a subscription.
func (p *part) Owns(subscription string) bool { return p.of.leases.Owns(subscription) }

// Run calls changed whenever the result of Owns may have changed, until ctx is done.
func (p *part) Run(ctx context.Context, changed func() <-chan struct{}) error {
	p.of.mu.Lock()
	if p.of.parts == nil {
		p.of.parts = map[*part]func() <-chan struct{}{}
	}
	p.of.parts[p] = changed
	p.of.mu.Unlock()
	changed()
	<-ctx.Done()
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	delete(p.of.parts, p)
	return nil
}

// run acquires and renews leases until ctx is done, and then returns them.
func (o *ownership) run(ctx context.Context) error {
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

func (o *ownership) tell() []<-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := make([]<-chan struct{}, 0, len(o.parts))
	for _, changed := range o.parts {
		all = append(all, changed())
	}
	return all
}

// gate allows content to be sent only while this replica serves the subscription. Engines learn of
// a lost lease at the next round; until then, a suspended machine would send the same content as
// its successor.
type gate struct {
	of   delivery.Gate
	owns *part
}

// Decide decides whether an event may be sent.
func (g gate) Decide(sub *sluice.Subscription, ev *sluice.Event, now time.Time) model.Decision {
	if !g.owns.Owns(sub.ID) {
		return model.Undecided
	}
	return g.of.Decide(sub, ev, now)
}
