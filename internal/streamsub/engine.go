package streamsub

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/sluice-io/sluice/internal/inflight"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Engine serves subscriptions: requests for any of them, and the clocks and notices of those that
// this process owns.
type Engine struct {
	ports Deps
	opts  Options
	slots chan struct{} // one for each request in flight
	busy  chan struct{} // one for each subscription in processing
	clock *clock
	under inflight.Set[sending]

	parts sync.WaitGroup // of Run

	mu      sync.Mutex
	launch  func(func(context.Context)) // starts a goroutine that ends with Run; nil: it does not run
	entries map[string]*entry
	logs    map[string]*followed
}

// followed is a namespace with subscriptions.
type followed struct {
	tails   *tails
	entries map[string]*entry
}

// entry is a subscription in this process's memory.
type entry struct {
	sub      Subscription
	revision uint64
	view     scan

	working bool            // a goroutine processes it
	again   bool            // and has to repeat that
	sending map[string]bool // wakes in flight
}

// sending is a subscription with a wake in flight, as it was when sent.
type sending struct {
	key string
	sub *Subscription
}

// looking limits subscriptions in processing.
const looking = 16

// New returns an engine that is idle until Run.
func New(ports Deps, opts Options) *Engine {
	opts = opts.filled()
	return &Engine{
		ports: ports, opts: opts, slots: make(chan struct{}, opts.MaxInFlight), busy: make(chan struct{}, looking), clock: newClock(opts.Now),
		entries: map[string]*entry{}, logs: map[string]*followed{},
	}
}

// Run serves until ctx is done, which cuts off requests in flight; the next owner sends them again.
func (e *Engine) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	e.mu.Lock()
	e.launch = func(part func(context.Context)) { e.parts.Go(func() { part(ctx) }) }
	e.mu.Unlock()
	e.parts.Go(func() { e.clock.run(ctx, e.kick) })
	e.parts.Go(func() { e.sweep(ctx) })
	err := e.ports.Records.Watch(ctx, e.change)
	cancel()
	e.mu.Lock()
	e.launch = nil
	e.mu.Unlock()
	e.parts.Wait()
	return err
}

// change takes a subscription from the store.
func (e *Engine) change(key string, s *Subscription, revision uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if s == nil {
		if ent := e.entries[key]; ent != nil && ent.revision <= revision {
			e.drop(key, ent)
		}
		return
	}
	e.know(key, *s, revision)
	e.start(key)
}

// know keeps the newest known revision of a subscription. The caller holds the lock.
func (e *Engine) know(key string, s Subscription, revision uint64) {
	ent := e.entries[key]
	if ent == nil {
		ent = &entry{sending: map[string]bool{}}
		e.entries[key] = ent
	}
	if revision > ent.revision {
		ent.sub, ent.revision = s, revision
	}
	if e.follow(s.Namespace) != nil {
		e.logs[s.Namespace].entries[key] = ent
	}
}

// drop forgets a subscription that is gone. The caller holds the lock.
func (e *Engine) drop(key string, ent *entry) {
	delete(e.entries, key)
	e.under.Cut(func(one sending) bool { return one.key == key && one.sub.Incarnation == ent.sub.Incarnation })
	f := e.logs[ent.sub.Namespace]
	if f == nil {
		return
	}
	if delete(f.entries, key); len(f.entries) == 0 {
		f.tails.stop()
		delete(e.logs, ent.sub.Namespace)
	}
}

// follow returns the tails of a namespace, nil if the engine does not run. The caller holds the lock.
func (e *Engine) follow(namespace string) *tails {
	if f := e.logs[namespace]; f != nil {
		return f.tails
	}
	if e.launch == nil {
		return nil
	}
	t := newTails()
	e.logs[namespace] = &followed{t, map[string]*entry{}}
	news := func(path sluice.Path) { e.news(namespace, path) }
	e.launch(func(ctx context.Context) { t.run(ctx, e.ports.Logs, namespace, news, e.opts.Log) })
	return t
}

// news processes the subscriptions that a path may concern; "" is every path.
func (e *Engine) news(namespace string, path sluice.Path) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f := e.logs[namespace]
	if f == nil {
		return
	}
	for key, ent := range f.entries {
		if ent.sub.Wake != nil && path != "" {
			continue // it is processed when that ends
		}
		relative, below := ent.sub.Relative(path)
		if path == "" || below && ent.sub.Follows(relative) {
			e.start(key)
		}
	}
}

// kick processes a subscription.
func (e *Engine) kick(key string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.start(key)
}

// start is kick for a caller that holds the lock.
func (e *Engine) start(key string) {
	ent := e.entries[key]
	if ent == nil || e.launch == nil {
		return
	}
	ent.again = true
	if ent.working {
		return
	}
	ent.working = true
	e.launch(func(ctx context.Context) { e.work(ctx, key, ent) })
}

// work processes a subscription until nothing is left to do at the moment.
func (e *Engine) work(ctx context.Context, key string, ent *entry) {
	select {
	case e.busy <- struct{}{}:
		defer func() { <-e.busy }()
	case <-ctx.Done():
	}
	for {
		e.mu.Lock()
		if !ent.again || ctx.Err() != nil || e.entries[key] != ent {
			ent.working = false
			e.mu.Unlock()
			return
		}
		ent.again = false
		s := ent.sub
		e.mu.Unlock()
		if err := e.serve(ctx, key, ent, s); err != nil && ctx.Err() == nil {
			e.opts.Log.LogAttrs(ctx, slog.LevelWarn, "stream subscription not started yet", e.about(&s, slog.Any("error", err))...)
			e.clock.set(key, e.opts.Now().Add(time.Second))
		}
	}
}

func (e *Engine) about(s *Subscription, more ...slog.Attr) []slog.Attr {
	return append([]slog.Attr{slog.String("namespace", s.Namespace), slog.String("root", s.Root), slog.String("subscription", s.ID)}, more...)
}

// sweep processes all subscriptions now and then: access may be lost without any event.
func (e *Engine) sweep(ctx context.Context) {
	tick := time.NewTicker(e.opts.SweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			e.kickAll()
		}
	}
}

func (e *Engine) kickAll() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for key := range e.entries {
		e.start(key)
	}
}

// Changed says that ownership may have changed. The returned channel is closed when requests for
// subscriptions no longer owned have ended.
func (e *Engine) Changed() <-chan struct{} {
	e.kickAll()
	off := e.under.Cut(func(one sending) bool { return !e.ports.Owns.Owns(one.key) })
	done := make(chan struct{})
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(off) == 0 || e.launch == nil {
		close(done)
		return done
	}
	e.launch(func(context.Context) { // they end with Run at the latest
		defer close(done)
		for _, over := range off {
			<-over
		}
	})
	return done
}

// Withdraw cuts off requests in flight for every subscription for which lost returns true, and
// returns when nothing of them can leave any more, or with ctx's error.
func (e *Engine) Withdraw(ctx context.Context, lost func(*sluice.Subscription) bool) error {
	return e.under.Cut(func(one sending) bool { return slices.ContainsFunc(one.sub.Wishes(), lost) }).Wait(ctx)
}
