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

// Watcher reports subscriptions. Watch calls change with the current state of each, then with each
// change, until ctx is done. A nil sub means that the subscription is gone; an empty id means that
// all stored ones have been reported.
type Watcher interface {
	Watch(ctx context.Context, change func(id string, sub *sluice.Subscription)) error
}

// Options are an engine's optional dependencies and settings.
type Options struct {
	Observe Observer     // default: none
	Log     *slog.Logger // default: slog.DiscardHandler
	Replays ReplayWatcher

	LookEvery   time.Duration // interval of scans for events that left the log; default: ten seconds
	MaxInFlight int           // concurrent requests of all subscriptions; default: 1,024
	MaxPrograms int           // concurrent programs of all subscriptions; default: 256
}

// ReplayWatcher reports replays. Watch calls change with the current state of each, then with each
// change and its end, until ctx is done.
type ReplayWatcher interface {
	Watch(ctx context.Context, change func(rep sluice.Replay, gone bool)) error
}

// The defaults of Options.
const (
	maxInFlight = 1024
	maxPrograms = 256
)

// Engine serves the push subscriptions that this process owns, each by a runner. It is safe for
// concurrent use.
type Engine struct {
	watch   Watcher
	owns    Ownership
	ports   Deps
	opts    Options
	changes chan change

	serving  supervise.Set[*served] // by subscription
	seats    seats                  // with Deps.Arrivals: the seats of the subscriptions that joined
	complete bool                   // all present subscriptions were reported
	owned    func(key string) bool  // whether the engine serves a lease key (model.LeaseKey); only for follow, see review
	replays  replays
	shares   *fairsem.Shares // permits for requests in flight
	programs *fairsem.Shares // permits for programs, separate so that programs that hang block no requests
	outbound *outbound       // the only holder of the sender
	workers  *workers        // shared by all runners; set while serve runs
	ahead    atomic.Int64    // bytes of the read-ahead budget in use
}

type change struct {
	id  string
	sub *sluice.Subscription // nil with an id: the subscription is gone; nil without an id: check all again

	settled chan struct{} // if not nil: closed when the runners that were told to end have ended

	replay *sluice.Replay // a changed replay; nil: the change is of a subscription
	gone   bool           // the replay is gone

	saveLanes bool // the store has lost the records of all parked lanes
	complete  bool // all present subscriptions were reported

	wake func(*runner) // if not nil: the subscription needs a runner; called with that, or with nil if it is not served

	rested *served // with an id: this runner of the subscription has ended, because it had no work
}

// served is a subscription that a runner serves.
type served struct {
	runner *runner
	replay *replaying  // nil: the runner serves the live deliveries
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
		owned: func(string) bool { return false },
	}
}

// Run serves subscriptions until ctx is done. It returns when the attempts in flight have finished.
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

// serve serves subscriptions until ctx is done. It ends Arrivals after the last runner.
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

// follow applies changes of subscriptions and of their ownership until ctx is done. It also sweeps
// the subscriptions that are not active.
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
			default: // the previous sweep is still running
			}
		case c := <-e.changes:
			e.enter(ctx, c, all)
		}
	}
}

// enter applies a change to the known subscriptions and their runners.
func (e *Engine) enter(ctx context.Context, c change, all map[string]*sluice.Subscription) {
	switch {
	case c.saveLanes:
		e.saveLanes()
	case c.replay != nil:
		e.changeReplay(ctx, *c.replay, c.gone, all)
	case c.wake != nil:
		e.awake(ctx, all[c.id])
		c.wake(e.liveRunner(c.id))
	case c.rested != nil:
		if s, ok := e.serving.Get(c.id); ok && s == c.rested {
			e.serving.Stop(c.id)
		}
	case c.id == "":
		e.complete = e.complete || c.complete
		e.review(ctx, all)
		if c.settled != nil {
			e.settle(c.settled)
		}
	case c.sub == nil:
		e.end(c.id)
		if was := all[c.id]; was != nil {
			e.leaveReplaysOf(ctx, was)
		}
		delete(all, c.id)
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

// idle returns the subscriptions that this process owns but that are not active.
func (e *Engine) idle(all map[string]*sluice.Subscription) (subs []*sluice.Subscription) {
	for _, sub := range all {
		if sub.Mode == sluice.Push && (sub.State == sluice.Paused || sub.State == sluice.Disabled || sub.State == sluice.Suspended) && e.owned(model.LeaseKey(sub)) {
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
	case sub.Mode != sluice.Push || sub.State != sluice.Active || !e.owned(model.LeaseKey(sub)):
		e.stop(sub)
		return
	}
	serving := false
	if s, ok := e.serving.Get(sub.ID); ok {
		if serving = s.serves(sub); serving {
			s.runner.mailbox.change(sub)
		} else {
			e.serving.Stop(sub.ID)
		}
	}
	if e.ports.Arrivals != nil {
		e.seats.put(sub, e.ports.Arrivals.Join(sub, func() { e.tell(ctx, change{id: sub.ID, wake: func(*runner) {}}) }))
	} else if !serving {
		e.start(ctx, sub)
	}
}

// serves reports whether the runner can continue with new settings of its subscription.
func (s *served) serves(sub *sluice.Subscription) bool {
	return s.runner.constants.allow(sub)
}

// awake starts a runner for a subscription that is active and owned, unless it has a working one.
func (e *Engine) awake(ctx context.Context, sub *sluice.Subscription) {
	if sub == nil || sub.Mode != sluice.Push || sub.State != sluice.Active || !e.owned(model.LeaseKey(sub)) {
		return
	}
	if s, ok := e.serving.Get(sub.ID); ok && s.serves(sub) && !s.runner.intake.resting.Load() {
		return
	}
	e.start(ctx, sub)
}

// commit makes Arrivals serve the subscriptions that joined, once all have been reported.
func (e *Engine) commit() {
	if e.ports.Arrivals != nil && e.complete {
		e.ports.Arrivals.Commit()
	}
}

// stop stops serving a subscription that is not active or not owned.
func (e *Engine) stop(sub *sluice.Subscription) {
	ended := e.serving.Stop(sub.ID)
	if e.ports.Arrivals == nil {
		return
	}
	seat := e.seats.take(sub.ID)
	switch {
	case !e.owned(model.LeaseKey(sub)):
		if seat != nil {
			seat.Drop()
		}
	case sub.Mode != sluice.Push:
	case seat == nil && ended == nil: // an earlier process may have ended without storing that it left
		e.ports.Arrivals.Join(sub, func() {}).Leave()
	case seat == nil: // an earlier call lets it leave when its runner has ended
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
	if s, ok := e.serving.Get(id); ok && !s.runner.intake.resting.Load() {
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
	r.egress.outbound, r.executor.workers = e.outbound, e.workers
	return r
}

// start starts a runner in place of the subscription's present one. The new runner begins when that
// has finished its attempts in flight. It ends with ctx, or when it is stopped.
func (e *Engine) start(ctx context.Context, sub *sluice.Subscription) {
	e.serving.Start(ctx, sub.ID, func(inner context.Context) (*served, func()) {
		s := &served{runner: e.newRunner(sub, e.ports)}
		return s, func() {
			e.keep(inner, s.runner)
			if s.over.Load() {
				s.runner.forget(shutdown.Lasting(ctx))
			}
			if s.runner.intake.resting.Load() {
				e.tell(inner, change{id: sub.ID, rested: s})
			}
		}
	})
}

// keep restarts a runner after a failure, with backoff.
func (e *Engine) keep(ctx context.Context, r *runner) {
	const shortest, longest = 250 * time.Millisecond, 5 * time.Second // short, because NATS may be back at any moment
	pause := shortest
	for {
		began := time.Now()
		err := e.runOnce(ctx, r)
		if errors.Is(err, errResting) {
			return
		}
		if err == nil || errors.Is(err, errGone) {
			<-ctx.Done() // the subscription is being cancelled; opening it again would create its consumers again
		}
		if ctx.Err() != nil {
			return
		}
		r.unopened(ctx, err)
		level := r.severity(err)
		if level < slog.LevelWarn && r.failures <= 1 || time.Since(began) > time.Minute {
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

// runOnce runs a runner and handles its end. If access was lost while the runner was told to end,
// the next process that serves the subscription handles that.
func (e *Engine) runOnce(ctx context.Context, r *runner) error {
	err := r.run(ctx)
	switch {
	case errors.Is(err, errLost) && ctx.Err() == nil:
		return e.revoke(ctx, r)
	case errors.Is(err, errReplayed):
		return r.scope.conclude(ctx)
	}
	return err
}

// end stops the runner of a subscription that was cancelled or deleted, and makes it remove its
// records.
func (e *Engine) end(id string) {
	if s, ok := e.serving.Get(id); ok {
		s.over.Store(true)
	}
	e.serving.Stop(id)
	if seat := e.seats.take(id); seat != nil {
		seat.Forget()
	}
}

// Gauges returns a snapshot of every subscription that is served, ordered by subscription. It is
// zero for a subscription that has no runner because it has no work.
func (e *Engine) Gauges() []model.DeliveryGauges {
	serving := e.serving.All()
	all := make([]model.DeliveryGauges, 0, len(serving))
	for _, s := range serving {
		all = append(all, s.runner.board.read())
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
