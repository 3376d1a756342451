package host

import (
	"time"

	"github.com/sluice-io/sluice/internal/module"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// fallen counts the workers of a pool that crashed or did not become ready.
type fallen struct {
	times int
	last  string // why
	at    time.Time
	next  time.Time // no worker is started before
}

// running returns the processes of a module on this server, for each of its subscriptions that runs
// a program. It returns none if the module does not run here. The caller holds the lock.
func (h *Host) running(name string) (all []sluice.ModuleRun) {
	m := h.ready[name]
	if m == nil {
		return nil
	}
	for i := range m.Manifest.Handlers {
		handler := &m.Manifest.Handlers[i]
		if handler.Mode == module.Endpoint {
			continue
		}
		for _, ns := range m.Manifest.Namespaces {
			is := sluice.ModuleRun{Handler: handler.ID, Subscription: SubscriptionID(name, handler.ID, ns)}
			if p := h.pools.of[is.Subscription]; p != nil {
				p.enter(&is)
			} else {
				is.Processes = h.execs[is.Subscription]
				is.Events = is.Processes
			}
			all = append(all, is)
		}
	}
	return all
}

// enter adds the pool's workers and their events to a report.
func (p *pool) enter(is *sluice.ModuleRun) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.live {
		is.Events += len(w.held)
		if w.proc != nil {
			is.Processes++
		}
		if w.ready && !w.leaves {
			is.Ready++
		}
	}
	is.Waiting, is.Crashes, is.LastCrash = len(p.queue), p.fallen.times, p.fallen.last
	if p.fallen.times > 0 {
		at := p.fallen.at.UTC()
		is.LastCrashAt = &at
	}
	if p.pausing {
		next := p.fallen.next.UTC()
		is.NextStart = &next
	}
}

// execBegins counts a running program of a subscription until ends is called.
func (h *Host) execBegins(subscription string) (ends func()) {
	count := func(n int) {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.execs[subscription] += n; h.execs[subscription] == 0 {
			delete(h.execs, subscription)
		}
	}
	count(1)
	return func() { count(-1) }
}
