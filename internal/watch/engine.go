package watch

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-io/sluice/internal/filter"
	"github.com/sluice-io/sluice/internal/inflight"
	"github.com/sluice-io/sluice/internal/logtail"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/supervise"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Engine runs the watches that this process owns. It is safe for concurrent use. A watch runs in a
// goroutine of its own. It goes through these states:
//
//	              stored and owned            removed, changed or lease lost
//	not running ────────────────────► running ───────────────────────────────► stopping
//	     ▲                                                                        │
//	     └─────────────── finish: settle starts it again if it is wanted ─────────┘
//
// Two revisions of the same watch never run at the same time in one process.
type Engine struct {
	ports Deps
	opts  Options
	hubs  *logtail.Set[sluice.Event, struct{}]

	under inflight.Set[*sluice.Watch]
	parts sync.WaitGroup // of Run

	mu      sync.Mutex
	launch  func(func(context.Context)) // starts a goroutine that ends with Run; nil: it does not run
	watches map[string]*Stored
	runners map[string]*running
}

// running is a watch that runs. cancel is set before settle returns.
type running struct {
	of       *sluice.Watch
	revision uint64
	cancel   context.CancelFunc
	ended    chan struct{}
	behind   atomic.Int64 // when the event being evaluated was stored, in Unix ms; 0: the watch has caught up
}

// Gauges returns a snapshot of each watch that this process runs, in no particular order, without
// cancelled watches.
func (e *Engine) Gauges() []model.WatchGauges {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	all := make([]model.WatchGauges, 0, len(e.runners))
	for key, r := range e.runners {
		w := e.watches[key]
		if w == nil || w.Untold != nil {
			continue
		}
		g := model.WatchGauges{Namespace: w.Namespace, Watch: w.ID}
		if at := r.behind.Load(); at != 0 {
			g.Lag = max(0, now.Sub(time.UnixMilli(at)))
		}
		all = append(all, g)
	}
	return all
}

// New returns an engine that is idle until Run. The engine calls ports from many goroutines.
func New(ports Deps, opts Options) *Engine {
	opts = opts.filled()
	return &Engine{
		ports: ports, opts: opts, hubs: newHubs(ports.Log, opts),
		watches: map[string]*Stored{}, runners: map[string]*running{},
	}
}

// Run runs watches until ctx is done, and returns when no action is in flight any more. Call it at
// most once. For its errors, see supervise.Run.
func (e *Engine) Run(ctx context.Context) error {
	return supervise.Run(ctx, e.ports.Owns, supervise.Engine{
		Watches: []func(context.Context) error{func(ctx context.Context) error { return e.ports.Definitions.Watch(ctx, e.change) }},
		Changed: func(context.Context) <-chan struct{} { return e.changed() },
		Serve:   e.serve,
	})
}

// serve lets watches run until ctx ends, and returns when all have stopped.
func (e *Engine) serve(ctx context.Context) {
	e.hubs.Begin(ctx)
	defer e.hubs.End()
	e.mu.Lock()
	e.launch = func(part func(context.Context)) { e.parts.Go(func() { part(ctx) }) }
	for key := range e.watches { // those reported before serve
		e.settle(key)
	}
	e.mu.Unlock()
	<-ctx.Done()
	e.mu.Lock()
	e.launch = nil
	e.mu.Unlock()
	e.parts.Wait()
}

// Withdraw cancels the actions in flight of every watch for whose pattern or action lost returns
// true. It returns when none of them can be stored any more, or with the error of ctx. The caller
// must have updated the gate before; the engine asks it again before it repeats a cancelled action.
// A cancelled action is repeated, unless the gate or the performer then refuses it.
func (e *Engine) Withdraw(ctx context.Context, lost func(*sluice.Subscription) bool) error {
	return e.under.Cut(func(w *sluice.Watch) bool {
		return lost(w.Wish(w.Namespace, w.Pattern)) || lost(w.Wish(w.Namespace, sluice.Pattern(w.Action.Path)))
	}).Wait(ctx)
}

// change enters a watch's record that the store reports; nil: it is gone. The engine keeps w, which
// must not change any more.
func (e *Engine) change(key string, w *Stored) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if was := e.watches[key]; w == nil {
		delete(e.watches, key)
		if was != nil && e.runners[key] == nil { // otherwise finish does it
			e.opts.Observe.Deleted(&was.Watch)
		}
	} else {
		e.watches[key] = w
	}
	e.settle(key)
}

// changed starts and stops watches when ownership may have changed. The returned channel is closed
// when the watches that are no longer owned have stopped.
func (e *Engine) changed() <-chan struct{} {
	done := make(chan struct{})
	e.mu.Lock()
	defer e.mu.Unlock()
	for key := range e.watches {
		e.settle(key)
	}
	var leaving []*running
	for key, r := range e.runners {
		if !e.ports.Owns.Owns(key) {
			leaving = append(leaving, r)
		}
	}
	if len(leaving) == 0 || e.launch == nil {
		close(done)
		return done
	}
	e.launch(func(context.Context) { // the watches stop with Run at the latest
		defer close(done)
		for _, r := range leaving {
			<-r.ended
		}
	})
	return done
}

// settle starts or stops running a watch. The caller holds the lock. It does not wait for the
// watch. When a watch stops, finish calls settle again, so that a change during the stop is not
// lost.
func (e *Engine) settle(key string) {
	w := e.watches[key]
	wanted := w != nil && e.launch != nil && e.ports.Owns.Owns(key)
	if r := e.runners[key]; r != nil {
		if !wanted || r.revision != w.Revision {
			r.cancel() // finish calls settle again
		}
		return
	}
	if !wanted {
		return
	}
	r := &running{of: &w.Watch, revision: w.Revision, ended: make(chan struct{})}
	begun := make(chan struct{})
	e.runners[key] = r
	e.launch(func(ctx context.Context) {
		ctx, r.cancel = context.WithCancel(ctx)
		close(begun)
		defer e.finish(key, r)
		if w.Untold != nil {
			e.bury(ctx, w)
			return
		}
		e.look(ctx, key, &w.Watch, &r.behind)
	})
	<-begun
}

// finish records that a watch has stopped, and starts it again if it should run.
func (e *Engine) finish(key string, r *running) {
	r.cancel()
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.runners, key)
	close(r.ended)
	if e.watches[key] == nil {
		e.opts.Observe.Deleted(r.of)
	}
	e.settle(key)
}

// look runs a watch until ctx ends. A watch that cannot be compiled does nothing until its next
// revision. Any other error restarts it from the stored record, after a pause from again to
// againMost.
func (e *Engine) look(ctx context.Context, key string, w *sluice.Watch, behind *atomic.Int64) {
	log := e.opts.Log.With(slog.String("namespace", w.Namespace), slog.String("watch", w.ID))
	r, err := e.runner(key, w)
	if err != nil {
		log.LogAttrs(ctx, slog.LevelError, "watch cannot run", slog.Any("error", err))
		<-ctx.Done()
		return
	}
	r.behind = behind
	for pause := (supervise.Pause{First: again, Most: againMost}); ctx.Err() == nil; pause.Wait(ctx) {
		begun := time.Now()
		err := r.run(ctx, e.hubs)
		if ctx.Err() != nil {
			break
		}
		log.LogAttrs(ctx, slog.LevelWarn, "watch restarting", slog.Any("error", err))
		if time.Since(begun) > time.Minute {
			pause.Reset()
		}
	}
	r.rest(ctx)
}

// bury announces a cancelled watch and removes its record, after a pause: normally the replica that
// cancelled it does so at once.
func (e *Engine) bury(ctx context.Context, w *Stored) {
	for pause := (supervise.Pause{First: time.Second, Most: againMost}); ; {
		if !pause.Wait(ctx) {
			return
		}
		err := bury(ctx, e.ports.Log, e.ports.Definitions, w)
		if err == nil {
			break
		}
		e.opts.Log.LogAttrs(ctx, slog.LevelWarn, "cancelled watch not removed yet",
			slog.String("namespace", w.Namespace), slog.String("watch", w.ID), slog.Any("error", err))
	}
	<-ctx.Done() // the report of the removal cancels ctx
}

// runner returns the runner of a watch.
func (e *Engine) runner(key string, w *sluice.Watch) (*runner, error) {
	chooses, condition, err := compile(w, e.opts.Labels)
	if err != nil {
		return nil, err
	}
	return &runner{
		ports: e.ports, opts: e.opts, under: &e.under, key: key, watch: w, chooses: chooses, condition: condition, rule: ruleOf(w, condition, e.opts.Most),
	}, nil
}

// compile returns the matchers of a watch's readings and of its condition.
func compile(w *sluice.Watch, labels filter.Labels) (chooses, condition *filter.Matcher, err error) {
	if chooses, err = filter.CompileLive(w.Chooses(), labels); err != nil {
		return nil, nil, err
	}
	condition, err = filter.CompileLive(w.Condition(), labels)
	return chooses, condition, err
}

// ruleOf returns a watch's rule.
func ruleOf(w *sluice.Watch, condition *filter.Matcher, most int) Rule {
	return Rule{
		Level: w.Trigger == sluice.TriggerLevel, Cooldown: w.Cooldown.Std(), For: w.For.Std(), Most: most, Condition: condition.Match,
	}
}
