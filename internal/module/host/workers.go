package host

import (
	"context"
	"maps"
	"slices"

	"github.com/sluice-io/sluice/internal/module"
	"github.com/sluice-io/sluice/internal/module/program"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// pools holds the workers of this server. The host's lock guards it.
type pools struct {
	of      map[string]*pool // by subscription
	leaving []*pool          // retired, with workers that have not ended
}

// poolOf returns the pool of a subscription.
func (h *Host) poolOf(sub *sluice.Subscription, m *module.Module, handler *module.Handler) *pool {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.pools.of[sub.ID]
	if p != nil && p.module == m && p.handler == handler {
		return p
	}
	if p != nil {
		h.pools.retire(p)
	}
	p = newPool(poolOptions{
		module: m, handler: handler, idle: h.opts.Idle, log: h.opts.Log,
		start: func() (*program.Process, func(), error) { return h.start(sub, m, handler) },
	})
	if h.ready[m.Name] != m {
		p.retire() // the module has changed since
		return p
	}
	h.pools.of[sub.ID] = p
	return p
}

// start starts a process of a handler.
func (h *Host) start(sub *sluice.Subscription, m *module.Module, handler *module.Handler) (*program.Process, func(), error) {
	p := programOf(m, handler)
	remove, err := h.furnish(&p, h.environment(sub, handler))
	if err != nil {
		return nil, nil, err
	}
	proc, err := h.runner.Start(p.Program)
	if err != nil {
		remove()
		return nil, nil, err
	}
	return proc, remove, nil
}

// work has a worker handle an event, and sets the outcome of the attempt. It returns the events
// that the worker wants published.
func (h *Host) work(ctx context.Context, p *pool, it *item, a *sluice.Attempt) (events [][]byte) {
	it.attempt = a.Number
	res := p.do(ctx, it)
	if len(res.Events) > 0 && p.handler.Output != module.OutputEvents {
		res = failure(`the worker's answer has events: set "output" to "events" in the manifest`)
	}
	a.Outcome, a.Dead, a.RetryAfter = res.Outcome, res.Dead, res.After
	a.Error, a.Output = res.Text, res.output
	return res.Events
}

// retire retires a pool, and keeps it until its workers have ended.
func (s *pools) retire(p *pool) {
	maps.DeleteFunc(s.of, func(_ string, other *pool) bool { return other == p })
	s.leaving = append(slices.DeleteFunc(s.leaving, (*pool).over), p)
	p.retire()
}

// over reports whether all workers of a retired pool have ended.
func (p *pool) over() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.live) == 0
}

// retireOthers retires the pools of modules that no longer run. The caller holds the lock.
func (h *Host) retireOthers() {
	for _, p := range h.pools.of {
		if h.ready[p.module.Name] != p.module {
			h.pools.retire(p)
		}
	}
}

// Close stops the workers, and returns when they have ended. Workers finish the events that they
// have before they end. When the context is done, they are killed, and their events fail.
func (h *Host) Close(ctx context.Context) {
	h.mu.Lock()
	for _, p := range h.pools.of {
		h.pools.retire(p)
	}
	all := h.pools.leaving
	h.mu.Unlock()
	for _, p := range all {
		p.wait(ctx)
	}
}
