package delivery

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-io/sluice/internal/fairsem"
	"github.com/sluice-io/sluice/internal/filter"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/shutdown"
	"github.com/sluice-io/sluice/internal/supervise"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Watcher reports every subscription, first its current state, then its changes, until ctx is done.
// A nil sub means that the subscription of that id is gone; an empty id, that all present ones were
// reported.
type Watcher interface {
	Watch(ctx context.Context, change func(id string, sub *sluice.Subscription)) error
}

// Ownership decides which subscriptions this process serves.
type Ownership interface {
	supervise.Ownership
	Owns(key string) bool // by model.LeaseKey
}

// Options are an engine's optional dependencies and settings.
type Options struct {
	Observe Observer     // default: none
	Log     *slog.Logger // default: slog.DiscardHandler
	Replays ReplayWatcher

	LookEvery   time.Duration // interval between looks at waiting events; default: ten seconds
	MaxInFlight int           // concurrent requests of all subscriptions; default: 1,024
	MaxPrograms int           // concurrent programs of all subscriptions; default: 256
}

// ReplayWatcher reports every replay, first its current state, then its changes and its end, until
// ctx is done.
type ReplayWatcher interface {
	Watch(ctx context.Context, change func(rep sluice.Replay, gone bool)) error
}

// The defaults of Options.
const (
	maxInFlight = 1024
	maxPrograms = 256
)

// Engine serves the push subscriptions that this process owns, one runner each.
type Engine struct {
	watch   Watcher
	owns    Ownership
	ports   Deps
	opts    Options
	changes chan change

	serving  supervise.Set[*served] // by subscription
	seats    seats                  // with arrivals: of the subscriptions that joined
	complete bool                   // all present subscriptions were reported
	replays  replays
	shares   *fairsem.Shares // permits for requests in flight
	programs *fairsem.Shares // permits for programs: those that hang take none from requests
	outbound *outbound       // the only holder of the sender
	workers  *workers        // of all runners; while it serves
	ahead    atomic.Int64    // bytes of the budget used by read-ahead
}

type change struct {
	id  string
	sub *sluice.Subscription // nil with an id: gone; nil without one: check all again

	settled chan struct{} // if not nil: closed when the runners that were told to end have ended

	replay *sluice.Replay // with an id: of a replay; nil: the change is of a subscription
	gone   bool           // the replay is

	saveLanes bool // the store has lost the records of all parked lanes
	complete  bool // all present subscriptions were reported
	wake      bool // with an id: it needs a runner

	rested *served // with an id: its runner has ended, because it had no work
}

// served is a subscription that a runner serves.
type served struct {
	runner *runner
	replay *replaying  // nil: it is of the live deliveries
	over   atomic.Bool // the subscription has ended for good
}

// New returns an engine that is idle until Run.
func New(watch Watcher, owns Ownership, ports Deps, opts Options) *Engine {
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	if opts.Observe == nil {
		opts.Observe = noObserver{}
	}
	if ports.Healths == nil {
		ports.Healths = noHealths{}
	}
	if ports.Announce == nil {
		ports.Announce = noAnnouncer{}
	}
	if ports.Filters == nil {
		ports.Filters = filter.NewPool(filter.Rates{})
	}
	opts.LookEvery = cmp.Or(opts.LookEvery, holdEvery)
	way := newOutbound(ports.Gate, ports.Sender)
	ports.Gate, ports.Sender = nil, nil // outbound alone sends
	return &Engine{
		watch: watch, owns: owns, ports: ports, opts: opts, shares: fairsem.New(cmp.Or(opts.MaxInFlight, maxInFlight)), outbound: way,
		programs: fairsem.New(cmp.Or(opts.MaxPrograms, maxPrograms)),
		changes:  make(chan change), replays: replays{all: map[string]sluice.Replay{}}, seats: seats{all: map[string]seat{}},
	}
}

// Run serves until ctx is done. Attempts in flight finish before it returns.
func (e *Engine) Run(ctx context.Context) error {
	watches := []func(context.Context) error{func(ctx context.Context) error {
		return e.watch.Watch(ctx, func(id string, sub *sluice.Subscription) {
			e.tell(ctx, change{id: id, sub: sub, complete: id == ""})
		})
	}}
	if e.opts.Replays != nil {
		watches = append(watches, func(ctx context.Context) error {
			return e.opts.Replays.Watch(ctx, func(rep sluice.Replay, gone bool) {
				e.tell(ctx, change{id: rep.ID, replay: &rep, gone: gone})
			})
		})
	}
	return supervise.Run(ctx, e.owns, supervise.Engine{
		Watches: watches,
		Changed: func(ctx context.Context) <-chan struct{} {
			settled := make(chan struct{})
			e.tell(ctx, change{settled: settled})
			return settled
		},
		Serve: e.serve,
	})
}

// serve serves until ctx is done. Arrivals end after the last runner.
func (e *Engine) serve(ctx context.Context) {
	e.workers = newWorkers()
	defer e.workers.end()
	if e.ports.Arrivals != nil {
		inner, end := context.WithCancel(shutdown.Lasting(ctx))
		var arrivals sync.WaitGroup
		arrivals.Go(func() { e.ports.Arrivals.Run(inner) })
		defer arrivals.Wait()
		defer end()
	}
	e.follow(ctx)
	e.serving.Wait()
	e.replays.serving.Wait()
}

func (e *Engine) tell(ctx context.Context, c change) {
	select {
	case e.changes <- c:
	case <-ctx.Done():
	}
}

// follow keeps the runners in step with the subscriptions and with their ownership.
func (e *Engine) follow(ctx context.Context) {
	all := map[string]*sluice.Subscription{}
	tick := time.NewTicker(sweepLooks * e.opts.LookEvery)
	defer tick.Stop()
	swept := make(chan struct{}, 1)
	swept <- struct{}{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			select {
			case <-swept:
				subs := e.idle(all)
				e.serving.Go(func() {
					e.sweep(ctx, subs)
					swept <- struct{}{}
				})
			default: // it takes long
			}
		case c := <-e.changes:
			e.enter(ctx, c, all)
		}
	}
}

// enter applies a change to the set of known subscriptions.
func (e *Engine) enter(ctx context.Context, c change, all map[string]*sluice.Subscription) {
	switch {
	case c.saveLanes:
		e.saveLanes()
	case c.replay != nil:
		e.changeReplay(ctx, *c.replay, c.gone, all)
	case c.wake:
		e.awake(ctx, all[c.id])
	case c.rested != nil:
		if s, ok := e.serving.Get(c.id); ok && s == c.rested {
			e.serving.Stop(c.id)
		}
	case c.id == "":
		e.complete = e.complete || c.complete
		for _, sub := range all {
			e.apply(ctx, sub)
		}
		for _, rep := range e.replays.all {
			e.applyReplay(ctx, rep, all[rep.Subscription])
		}
		e.commit()
		if c.settled != nil {
			e.settle(c.settled)
		}
	case c.sub == nil:
		delete(all, c.id)
		e.end(c.id)
		e.leaveReplaysOf(ctx, c.id)
	default:
		all[c.id] = c.sub
		e.apply(ctx, c.sub)
		e.commit()
		for _, rep := range e.replays.of(c.id) {
			e.applyReplay(ctx, rep, c.sub)
		}
	}
}

// settle closes a channel when the runners that were told to end have ended.
func (e *Engine) settle(settled chan struct{}) {
	live, replays := e.serving.Settled(), e.replays.serving.Settled()
	e.serving.Go(func() {
		<-live
		<-replays
		close(settled)
	})
}

// idle returns the subscriptions that this process owns and does not serve.
func (e *Engine) idle(all map[string]*sluice.Subscription) (subs []*sluice.Subscription) {
	for _, sub := range all {
		if sub.Mode == sluice.Push && (sub.State == sluice.Paused || sub.State == sluice.Disabled || sub.State == sluice.Suspended) && e.owns.Owns(model.LeaseKey(sub)) {
			subs = append(subs, sub)
		}
	}
	return subs
}

// apply starts, changes or stops the subscription's runner, as its state requires.
func (e *Engine) apply(ctx context.Context, sub *sluice.Subscription) {
	switch {
	case sub.State == sluice.Cancelled:
		e.end(sub.ID)
		return
	case sub.Mode != sluice.Push || sub.State != sluice.Active || !e.owns.Owns(model.LeaseKey(sub)):
		e.stop(sub)
		return
	}
	serving := false
	if s, ok := e.serving.Get(sub.ID); ok {
		if serving = s.serves(sub); serving {
			s.runner.change(sub)
		} else {
			e.serving.Stop(sub.ID)
		}
	}
	if e.ports.Arrivals != nil {
		e.seats.put(sub, e.ports.Arrivals.Join(sub, func() { e.wake(ctx, sub.ID) }))
	} else if !serving {
		e.start(ctx, sub)
	}
}

// serves reports whether the runner of a subscription can go on with other settings of it.
func (s *served) serves(sub *sluice.Subscription) bool {
	return s.runner.ordering == sub.Policy.Ordering && s.runner.began.Equal(sub.Began()) && s.runner.program == runsProgram(sub)
}

// wake starts a runner for a subscription that has none.
func (e *Engine) wake(ctx context.Context, id string) { e.tell(ctx, change{id: id, wake: true}) }

// awake starts a runner for a subscription, unless it has one that works or is not served here.
func (e *Engine) awake(ctx context.Context, sub *sluice.Subscription) {
	if sub == nil || sub.Mode != sluice.Push || sub.State != sluice.Active || !e.owns.Owns(model.LeaseKey(sub)) {
		return
	}
	if s, ok := e.serving.Get(sub.ID); ok && s.serves(sub) && !s.runner.resting.Load() {
		return
	}
	e.start(ctx, sub)
}

// commit lets the arrivals serve those that joined, once all have.
func (e *Engine) commit() {
	if e.ports.Arrivals != nil && e.complete {
		e.ports.Arrivals.Commit()
	}
}

// stop stops serving a subscription that is not active, or another process's.
func (e *Engine) stop(sub *sluice.Subscription) {
	ended := e.serving.Stop(sub.ID)
	if e.ports.Arrivals == nil {
		return
	}
	seat := e.seats.take(sub.ID)
	switch {
	case !e.owns.Owns(model.LeaseKey(sub)):
		if seat != nil {
			seat.Drop()
		}
	case sub.Mode != sluice.Push:
	case seat == nil && ended == nil: // an earlier process may not have stored that it left
		e.ports.Arrivals.Join(sub, func() {}).Leave()
	case seat == nil: // it leaves when its runner has ended
	case ended == nil:
		seat.Leave()
	default:
		e.serving.Go(func() {
			<-ended
			seat.Leave()
		})
	}
}

// liveRunner returns the working runner of a subscription, or nil.
func (e *Engine) liveRunner(id string) *runner {
	if s, ok := e.serving.Get(id); ok && !s.runner.resting.Load() {
		return s.runner
	}
	return nil
}

func (e *Engine) newRunner(sub *sluice.Subscription, ports Deps) *runner {
	shares := e.shares
	if runsProgram(sub) {
		shares = e.programs
	}
	r := newRunner(sub, ports, e.opts, &e.ahead, shares.Join())
	r.outbound, r.workers = e.outbound, e.workers
	return r
}

// start starts a runner in place of the subscription's present one, which finishes its attempts in
// flight first. It ends with ctx, or when it is stopped.
func (e *Engine) start(ctx context.Context, sub *sluice.Subscription) {
	e.serving.Start(ctx, sub.ID, func(inner context.Context) (*served, func()) {
		s := &served{runner: e.newRunner(sub, e.ports)}
		return s, func() {
			e.keep(inner, s.runner)
			if s.over.Load() {
				s.runner.forget(shutdown.Lasting(ctx))
			}
			if s.runner.resting.Load() {
				e.tell(inner, change{id: sub.ID, rested: s})
			}
		}
	})
}

// keep restarts a runner after a failure, with backoff.
func (e *Engine) keep(ctx context.Context, r *runner) {
	const shortest, longest = 250 * time.Millisecond, 5 * time.Second // NATS may return any moment
	pause := shortest
	for {
		began := time.Now()
		err := e.runOnce(ctx, r)
		if errors.Is(err, errResting) {
			return
		}
		if err == nil || errors.Is(err, errGone) {
			<-ctx.Done() // it is cancelled; opening it again would create its consumers again
		}
		if ctx.Err() != nil {
			return
		}
		r.unopened(ctx, err)
		level := r.severity(err)
		if level < slog.LevelWarn || time.Since(began) > time.Minute {
			pause = shortest
		}
		e.opts.Log.LogAttrs(ctx, level, "subscription restarting",
			slog.String("subscription", r.id), slog.Any("error", err), slog.Duration("in", pause))
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause/2 + rand.N(pause)): //nolint:gosec // jitter, not a secret
		}
		pause = min(2*pause, longest)
	}
}

// runOnce runs a runner and handles its end. Access lost while it was told to end is handled by the
// next process to serve the subscription.
func (e *Engine) runOnce(ctx context.Context, r *runner) error {
	err := r.run(ctx)
	switch {
	case errors.Is(err, errLost) && ctx.Err() == nil:
		return e.revoke(ctx, r)
	case errors.Is(err, errReplayed):
		return r.conclude(ctx)
	}
	return err
}

// end stops the runner of a subscription that has ended for good: its last writes are of no use.
func (e *Engine) end(id string) {
	if s, ok := e.serving.Get(id); ok {
		s.over.Store(true)
	}
	e.serving.Stop(id)
	if seat := e.seats.take(id); seat != nil {
		seat.Forget()
	}
}

// Gauges returns a snapshot of every subscription that is served, by subscription: zero for one that has no runner because it
// has no work.
func (e *Engine) Gauges() []model.DeliveryGauges {
	serving := e.serving.All()
	all := make([]model.DeliveryGauges, 0, len(serving))
	for _, s := range serving {
		all = append(all, s.runner.read())
	}
	all = append(all, e.seats.idle(serving)...)
	slices.SortFunc(all, func(a, b model.DeliveryGauges) int { return strings.Compare(a.Subscription, b.Subscription) })
	return all
}

type noObserver struct{}

// noAnnouncer announces nothing.
type noAnnouncer struct{}

func (noAnnouncer) Held(*sluice.Subscription, *sluice.DeadLetter) {}
func (noAnnouncer) Throttled(*sluice.Subscription, string)        {}
func (noAnnouncer) Failing(*sluice.Subscription, int, time.Time)  {}

func (noAnnouncer) Turned(*sluice.Subscription, sluice.Breaker, time.Time) {}

func (noAnnouncer) StillHeld(*sluice.Subscription, *sluice.DeadLetter) {}
func (noAnnouncer) StillFailing(*sluice.Subscription, int, time.Time)  {}

func (noObserver) Matched(*sluice.Subscription)                    {}
func (noObserver) Attempted(*sluice.Subscription, *sluice.Attempt) {}
func (noObserver) Buried(*sluice.Subscription, sluice.Reason)      {}
func (noObserver) Withheld(*sluice.Subscription)                   {}
func (noObserver) Turned(*sluice.Subscription, sluice.Breaker)     {}
func (noObserver) Throttled(*sluice.Subscription)                  {}
func (noObserver) Failing(*sluice.Subscription, int, time.Time)    {}
