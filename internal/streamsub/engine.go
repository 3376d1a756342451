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

// Engine serves subscriptions. It handles requests for any of them, and watches the deadlines and
// sends the notices of those that this process owns. It is safe for concurrent use. mu guards
// launch, entries, logs and the fields of every entry except view, which the lock of the tails
// guards. mu is held neither together with that lock nor during a request.
type Engine struct {
	ports Deps
	opts  Options
	slots chan struct{} // has an element for each request in flight
	busy  chan struct{} // has an element for each subscription that is being processed
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

	working bool            // a goroutine is processing it
	again   bool            // it has to be processed again
	sending map[string]bool // ids of wakes in flight
}

// sending is a subscription with a wake in flight, as it was when sent.
type sending struct {
	key string
	sub *Subscription
}

// looking limits the subscriptions that are processed at the same time, and the streams that one of
// them looks up at the same time.
const looking = 16

// New returns an engine that is idle until Run.
func New(ports Deps, opts Options) *Engine {
	opts = opts.filled()
	return &Engine{
		ports: ports, opts: opts, slots: make(chan struct{}, opts.MaxInFlight), busy: make(chan struct{}, looking), clock: newClock(opts.Now),
		entries: map[string]*entry{}, logs: map[string]*followed{},
	}
}

// Run serves subscriptions until ctx is done. That cancels requests in flight; the next owner sends
// them again. Call it once. It returns the error of the watch.
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

// change enters a subscription that the store reports; nil: it was deleted.
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

// know enters a subscription unless a newer revision is known. The caller holds the lock.
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

// follow returns the tails of a namespace, and starts to follow them if necessary; nil if the
// engine does not run. The caller holds the lock.
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

// news starts processing of the subscriptions that follow a path; "" stands for every path.
func (e *Engine) news(namespace string, path sluice.Path) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f := e.logs[namespace]
	if f == nil {
		return
	}
	for key, ent := range f.entries {
		if ent.sub.Wake != nil && path != "" {
			continue // it is processed when the wake ends
		}
		relative, below := ent.sub.Relative(path)
		if path == "" || below && ent.sub.Follows(relative) {
			e.start(key)
		}
	}
}

// kick starts processing of a subscription.
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

// work processes a subscription until start is not called meanwhile. One goroutine at a time serves
// a subscription.
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

// sweep processes all subscriptions every SweepEvery, because an owner may lose access without any
// event.
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

// Changed tells the engine that ownership may have changed. It cancels the requests for
// subscriptions that this process no longer owns. The returned channel is closed when they have
// ended. Call it after Ownership has changed, and hand a lease on only when the channel is closed.
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
	e.launch(func(context.Context) { // the requests end with Run at the latest
		defer close(done)
		for _, over := range off {
			<-over
		}
	})
	return done
}

// Withdraw cancels the requests in flight for every subscription that has a wish for which lost
// returns true. It returns when no more of them can leave, or with the error of ctx.
func (e *Engine) Withdraw(ctx context.Context, lost func(*sluice.Subscription) bool) error {
	return e.under.Cut(func(one sending) bool { return slices.ContainsFunc(one.sub.Wishes(), lost) }).Wait(ctx)
}
